"""Which nodes are lost, what was on them, and what ends it."""

from detectors.events.event import Event
from detectors.incident import Finding, Transition
from detectors.incidents.cause_graph import explains
from tests.unit.detectors.streams import START, in_order, log, run

NODE = "hdfs08-dev.example.com:45454"
CONTAINER = "container_e1_1652757164854_0006_11_000001"
SECOND, MINUTE = 1_000, 60_000
AT = 10 * MINUTE


def of_nodes(*events: Event, until: int = AT + 2 * MINUTE) -> list[Transition]:
    said = run(in_order(events), until=START + until)
    return [t for t in said if any(f.kind == "node_lost" for f in t.findings)]


def lost(at: int = AT, node: str = NODE) -> list[Event]:
    return [
        log("node_lost", at, 1, "rm", node=node, silent="600"),
        log("node_lost", at + 4, 2, "rm", node=node),
        log("node_lost", at + 5, 3, "rm", node=node),
        log("container_killed", at + 13, 4, "rm", container=CONTAINER),
    ]


def test_all_lines_about_a_node_are_one_finding_that_names_its_containers() -> None:
    said = of_nodes(*lost())
    assert [t.transition for t in said] == ["opened"]
    assert said[0].severity == "critical"
    assert CONTAINER in said[0].summary
    assert "no heartbeat for 10 min" in said[0].summary
    assert said[0].findings[0].entity["node"] == NODE


def test_a_node_on_which_nothing_of_the_cluster_is_known_is_a_warning() -> None:
    assert [t.severity for t in of_nodes(*lost()[:3])] == ["warning"]
    leader = log("leader_granted", 0, source="jm", address="hdfs08-dev:16897")
    assert [t.severity for t in of_nodes(leader, *lost()[:3])] == ["critical"]


def test_two_nodes_are_two_findings_of_one_incident() -> None:
    said = of_nodes(*lost(), *lost(AT + 30 * SECOND, "hdfs09:45454"))
    assert len({t.incident for t in said}) == 1
    assert {f.subject for f in said[-1].findings} == {NODE, "hdfs09:45454"}


def test_a_container_killed_later_or_in_another_log_was_not_on_the_node() -> None:
    later = log("container_killed", AT + 30 * SECOND, 5, "rm", container=CONTAINER)
    elsewhere = log("container_killed", AT + 13, 5, "rm-2", container=CONTAINER)
    for other in (later, elsewhere):
        assert CONTAINER not in of_nodes(*lost()[:3], other)[-1].summary


def test_a_node_that_is_back_and_a_job_that_runs_again_end_it() -> None:
    back = log("node_back", AT + 20 * SECOND, 6, "rm", node=NODE)
    runs = log("job_state", AT + 20 * SECOND, 6, job="a" * 32, name="x", before="CREATED", state="RUNNING")
    assert [t.transition for t in of_nodes(*lost(), back)] == ["opened", "resolved"]
    assert [t.transition for t in of_nodes(*lost(), runs)] == ["opened", "resolved"]


def test_a_checkpoint_of_a_process_that_does_not_know_yet_ends_nothing() -> None:
    def done(at: int) -> Event:
        return log("checkpoint_completed", at, 7, job="a" * 32, checkpoint="9", bytes="1", duration="1")

    assert [t.transition for t in of_nodes(*lost(), done(AT + 5 * SECOND))] == ["opened"]
    assert [t.transition for t in of_nodes(*lost(), done(AT + 61 * SECOND), until=AT + 3 * MINUTE)] == [
        "opened",
        "resolved",
    ]


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
    slow = [log("node_lost", 30 * MINUTE, 1, "rm", node=NODE, silent="1500")]
    gone = [
        log("tm_registered", 0, 1, tm="tm-1:1-a", host="hdfs08-dev"),
        log("tm_timed_out", 6 * MINUTE, 2, tm="tm-1:1-a"),
    ]
    said = of_nodes(*slow, *gone, until=31 * MINUTE)
    assert [(f.kind, f.since - START) for f in said[-1].findings] == [
        ("taskmanager_lost", 6 * MINUTE),
        ("node_lost", 5 * MINUTE),
    ]
    assert said[-1].cause == "node_lost"
