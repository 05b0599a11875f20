"""Which nodes are lost, what was on them, and what ends it."""

from detectors.events.vocabulary import match
from detectors.incident import Finding, Transition
from detectors.incidents.cause_graph import explains
from tests.unit.detectors.story import MINUTE, SECOND, Story
from tests.unit.detectors.streams import START

NODE = "hdfs08-dev.example.com:45454"
CONTAINER = "container_e1_1652757164854_0006_11_000001"
AT = 10 * MINUTE


class Nodes(Story):
    """A story in which YARN's ResourceManager loses nodes ten minutes after START."""

    def lost(self, at: int = AT, node: str = NODE, container: str = CONTAINER) -> "Nodes":
        """All lines about a lost node, and its container's."""
        self.by("rm").line("node_lost", at, node=node, silent="600")
        self.line("node_lost", at + 4, node=node).line("node_lost", at + 5, node=node).by("jm")
        return self.killed(at + 13, container) if container else self

    def killed(self, at: int, container: str = CONTAINER, source: str = "rm") -> "Nodes":
        """A container ends."""
        return self.line("container_killed", at, source=source, container=container)

    def reported(self, until: int = AT + 2 * MINUTE) -> list[Transition]:
        """The transitions of two minutes."""
        return self.transitions(until)


def nodes(*more: str) -> Nodes:
    return Nodes("node_lost", *more)


def test_all_lines_about_a_node_are_one_finding_that_names_its_containers() -> None:
    transitions = nodes().lost().reported()
    assert [t.transition for t in transitions] == ["opened"]
    assert transitions[0].severity == "critical"
    assert CONTAINER in transitions[0].summary
    assert "no heartbeat for 10 min" in transitions[0].summary
    assert transitions[0].findings[0].entity["node"] == NODE


def test_a_node_on_which_nothing_of_the_cluster_is_known_is_a_warning() -> None:
    assert [t.severity for t in nodes().lost(container="").reported()] == ["warning"]
    leader = nodes().line("leader_granted", 0, address="hdfs08-dev:16897")
    assert [t.severity for t in leader.lost(container="").reported()] == ["critical"]


def test_a_node_that_is_decommissioned_or_shut_down_is_healthy() -> None:
    history = nodes().line("leader_granted", 0, address="hdfs08-dev:16897").by("rm")
    for number, line in enumerate(
        (
            f"{NODE} Node Transitioned from RUNNING to DECOMMISSIONING",
            f"Deactivating Node {NODE} as it is now DECOMMISSIONED",
            f"{NODE} Node Transitioned from DECOMMISSIONING to DECOMMISSIONED",
            f"Deactivating Node {NODE} as it is now SHUTDOWN",
            f"{NODE} Node Transitioned from RUNNING to SHUTDOWN",
        )
    ):
        found = match.match_anywhere(line)
        if found is not None:
            history.line(found[0], AT + number, **found[1])
    assert history.killed(AT + 10).reported() == []


def test_two_nodes_are_two_findings_of_one_incident() -> None:
    transitions = nodes().lost().lost(AT + 30 * SECOND, "hdfs09:45454").reported()
    assert len({t.incident for t in transitions}) == 1
    assert {f.subject for f in transitions[-1].findings} == {NODE, "hdfs09:45454"}


def test_a_container_killed_later_or_in_another_log_was_not_on_the_node() -> None:
    later = nodes().lost(container="").killed(AT + 30 * SECOND)
    elsewhere = nodes().lost(container="").killed(AT + 13, source="rm-2")
    for history in (later, elsewhere):
        assert CONTAINER not in history.reported()[-1].summary


def test_a_node_that_is_back_and_a_job_that_runs_again_end_it() -> None:
    back = nodes().lost().line("node_back", AT + 20 * SECOND, source="rm", node=NODE)
    runs = nodes().lost().runs(AT + 20 * SECOND)
    for history in (back, runs):
        assert [t.transition for t in history.reported()] == ["opened", "resolved"]


def test_a_checkpoint_of_a_process_that_does_not_know_yet_ends_nothing() -> None:
    early = nodes().lost().completed(9, AT + 5 * SECOND)
    assert [t.transition for t in early.reported()] == ["opened"]
    later = nodes().lost().completed(9, AT + 61 * SECOND)
    assert [t.transition for t in later.reported(AT + 3 * MINUTE)] == ["opened", "resolved"]


def test_a_node_explains_what_was_on_it_however_its_name_is_written() -> None:
    def finding(kind: str, host: str) -> Finding:
        return Finding(
            kind=kind, subject="x", entity={"host": host}, since=START, at=START, severity="critical", summary=""
        )

    node = finding("node_lost", "hdfs08-dev.example.com")
    assert explains(node, finding("jobmanager_lost", "HDFS08-dev"))
    assert not explains(node, finding("jobmanager_lost", "hdfs05-dev.example.com"))
    assert not explains(finding("node_lost", "10.21.33.15"), finding("jobmanager_lost", "10.21.33.16"))


def test_it_is_lost_since_it_fell_silent_and_explains_what_went_with_it_however_patient_yarn_is() -> None:
    history = nodes("taskmanager_lost").line("node_lost", 30 * MINUTE, source="rm", node=NODE, silent="1500")
    history.line("tm_registered", 0, tm="tm-1:1-a", host="hdfs08-dev").line("tm_timed_out", 6 * MINUTE, tm="tm-1:1-a")
    transitions = history.reported(31 * MINUTE)
    assert [(f.kind, f.since - START) for f in transitions[-1].findings] == [
        ("taskmanager_lost", 6 * MINUTE),
        ("node_lost", 5 * MINUTE),
    ]
    assert transitions[-1].cause == "node_lost"
