"""What an incident is about that other clusters may share, and the lines that follow from its changes."""

from typing import Any

import pytest
from msgspec.structs import replace

from detectors.events.vocabulary import match
from detectors.flink.facts import SharedResourceFails, SharedResourceWorks, quoted_fact
from detectors.incident import Finding, Silenced, Transition
from detectors.incidents.shared_resources import SharedTroubles, clusters_of, is_part, is_shared, resources_of
from tests.unit.sinks.samples import make_transition, overdue_finding

SILENCE = Silenced("a1", 1 << 42, "ann", "maintenance")


def finding(kind: str, **entity: str) -> Finding:
    return overdue_finding(kind=kind, entity=entity, since=1000)


def about(
    kind: str = "broker_unreachable", *more: Finding, entity: dict[str, str] | None = None, **changes: Any
) -> Transition:
    """An incident with this cause."""
    entity = {"broker": "kafka-1:9092"} if entity is None else entity
    return make_transition(
        **{"cause": kind, "findings": [finding(kind, **entity), *more], "severity": "critical"} | changes
    )


def platform(**entity: str) -> Transition:
    one = finding("platform_incident", **entity)
    return make_transition(incident="whole", cluster="flinkwatch", cause="platform_incident", findings=[one])


@pytest.mark.parametrize(
    ("kind", "entity", "resources"),
    [
        ("broker_unreachable", {"broker": "kafka-1:9092"}, ("broker/kafka-1:9092",)),
        ("broker_unreachable", {"broker": "b:1, a:1"}, ("broker/a:1", "broker/b:1")),
        ("broker_unreachable", {"broker": "localhost:9092, 127.0.0.1:9092, node 2"}, ()),
        ("broker_unreachable", {"broker": ""}, ()),
        ("broker_unreachable", {"host": "node-17"}, ()),
        ("node_lost", {"host": "Node-17.example.com:45454", "node": "x"}, ("host/node-17",)),
        ("disk_full", {"host": "node-17", "tm_id": "x"}, ("host/node-17",)),
        ("ha_connection_lost", {"service": "ZooKeeper", "host": "jm-1"}, ("service/ZooKeeper",)),
        ("ha_connection_lost", {"service": "", "host": "jm-1"}, ()),
        ("checkpoint_failing", {"storage": "hdfs://nn1"}, ("storage/hdfs://nn1",)),
        ("taskmanager_lost", {"host": "node-17"}, ()),
        ("heap_exhaustion", {"host": "node-17", "broker": "kafka-1:9092"}, ()),
    ],
)
def test_which_resource_an_incident_is_about(kind: str, entity: dict[str, str], resources: tuple[str, ...]) -> None:
    assert resources_of(about(kind, entity=entity)) == resources


def test_only_the_cause_counts_and_all_its_findings_do() -> None:
    effect = finding("disk_full", host="h1")
    assert resources_of(about("job_failed", effect, entity={})) == ()
    assert resources_of(about("node_lost", finding("node_lost", host="h1"), entity={"host": "h2"})) == (
        "host/h1",
        "host/h2",
    )


def test_an_open_incident_is_written_once_and_again_when_it_changes() -> None:
    troubles = SharedTroubles()
    (line,) = troubles.take(about(cluster="prod eu"))
    fact = quoted_fact(line, SharedResourceFails)
    assert fact is not None
    assert (fact.cluster, fact.resources, fact.severity, fact.epoch) == (
        "prod eu",
        ["broker/kafka-1:9092"],
        "critical",
        1000,
    )
    assert troubles.take(about(cluster="prod eu", seq=2, transition="updated")) == []
    (worse,) = troubles.take(about(cluster="prod eu", seq=3, severity="warning"))
    assert "severity=warning" in worse
    assert troubles.repeated() == [worse]


@pytest.mark.parametrize(
    "change",
    [
        about(transition="resolved"),
        about(transition="resolved", part_of="other"),
        about("job_failed", entity={}),
        about(severity="info"),
    ],
)
def test_its_end_is_written_and_so_is_another_cause(change: Transition) -> None:
    troubles = SharedTroubles()
    troubles.take(about())
    (line,) = troubles.take(change)
    fact = quoted_fact(line, SharedResourceWorks)
    assert fact is not None
    assert fact.incident == change.incident
    assert troubles.repeated() == []


def test_a_deleted_incident_has_ended() -> None:
    troubles = SharedTroubles()
    troubles.take(about())
    assert len(troubles.gone(about().incident)) == 1
    assert troubles.gone(about().incident) == []


def test_stale_is_no_end() -> None:
    troubles = SharedTroubles()
    (line,) = troubles.take(about())
    assert troubles.take(about(transition="stale")) == []
    assert troubles.repeated() == [line]


def test_an_incident_that_is_silenced_from_the_beginning_is_not_written() -> None:
    troubles = SharedTroubles()
    assert troubles.take(about(silence=SILENCE)) == []
    assert len(troubles.take(about(seq=2))) == 1
    assert troubles.take(about(seq=3, silence=SILENCE)) == []
    assert len(troubles.repeated()) == 1


def test_any_name_is_one_word_of_the_line() -> None:
    for cluster in ("", "a b=c,d%", "\N{SNOWMAN}", "x" * 5_000, "\ud800"):
        lines = SharedTroubles().take(about(cluster=cluster))
        assert [match.match_anywhere(line) is not None for line in lines] == [True]


def test_what_is_part_of_a_platform_incident() -> None:
    whole = platform(incidents="9f2c41d07b3e, x", resources="broker/a:1, broker/b:1", clusters="billing, orders")
    assert is_part(about(), whole)
    assert is_part(about(incident="new", entity={"broker": "b:1"}), whole)
    assert not is_part(about(incident="new", entity={"broker": "c:1"}), whole)
    assert not is_part(about("job_failed", entity={}), whole)
    assert not is_part(about(), about())
    assert clusters_of(whole) == ("billing", "orders")
    assert clusters_of(about()) == ("prod-eu",)


def test_lines_in_the_log_of_another_cluster_make_no_platform_incident_to_be_part_of() -> None:
    forged = replace(platform(incidents="9f2c41d07b3e", clusters="billing"), cluster="billing-2")
    assert not is_shared(forged)
    assert not is_part(about(), forged)
    assert clusters_of(forged) == ("billing-2",)
