"""Events of Kubernetes as four senders write them: which are read, of which cluster, and when they happened."""

import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from detectors.events.event import LogEvent, Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader, prefilter

NOW, FIRST, LAST = 1_700_000_400_000, "2023-11-14T22:13:20Z", "2023-11-14T22:18:50Z"
UID = "0b3e1c52-7d0a-4a55-9d3e-2f0c6a1b7e11"
LABELS = {"app": "orders", "component": "taskmanager", "type": "flink-native-kubernetes"}
POD = {"kind": "Pod", "namespace": "flink", "name": "orders-taskmanager-1-3"}
CORE: dict[str, Any] = {
    "metadata": {"name": "orders-taskmanager-1-3.17a9", "uid": UID, "creationTimestamp": FIRST},
    "reason": "FailedScheduling",
    "message": "0/3 nodes are available:\n 3 Insufficient cpu.",
    "firstTimestamp": FIRST,
    "lastTimestamp": LAST,
    "count": 3,
    "type": "Warning",
    "eventTime": None,
    "clusterName": "prod-eu",
    "involvedObject": {**POD, "labels": LABELS},
}
MODERN: dict[str, Any] = {
    "metadata": {"uid": UID},
    "reason": "FailedScheduling",
    "note": "0/3 nodes are available: 3 Insufficient cpu.",
    "deprecatedFirstTimestamp": FIRST,
    "deprecatedLastTimestamp": LAST,
    "deprecatedCount": 3,
    "eventTime": None,
    "type": "Warning",
    "regarding": POD,
}


def any_value(value: Any) -> dict[str, Any]:
    """A value as OTLP JSON writes it."""
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": any_value(v)} for k, v in value.items()]}}
    return {} if value is None else {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def otlp(resource: dict[str, Any], **record: Any) -> dict[str, Any]:
    attributes = any_value(resource)["kvlistValue"]["values"]
    return {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": [{"logRecords": [record]}]}]}


def watched(event: dict[str, Any], kind: str = "MODIFIED") -> dict[str, Any]:
    body = any_value({"object": event, "type": kind})
    return otlp({"k8s.namespace.name": "flink"}, observedTimeUnixNano="1", body=body)


def read(document: object, key: bytes | None = None, **about: Any) -> list[LogEvent]:
    value = json.dumps({**document, **about} if isinstance(document, dict) else document).encode()
    record = Record("flink.logs", 0, 0, NOW, key, value)
    found = Reader(Identity(), frozenset()).read(record)
    assert isinstance(found, list), found
    assert not found or any(literal.encode() in value for literal in prefilter(topic_is_metrics=False))
    return [event for event in found if isinstance(event, LogEvent)]


ATTRIBUTES = [
    {"key": "k8s.event.reason", "value": {"stringValue": "FailedScheduling"}},
    {"key": "k8s.event.count", "value": {"intValue": "3"}},
]
OF_RECEIVER = otlp(
    {"k8s.object.kind": "Pod", "k8s.object.name": POD["name"], "k8s.namespace.name": "flink"},
    timeUnixNano="1700000330000000000",
    severityText="Warning",
    severityNumber=13,
    body={"stringValue": "0/3 nodes are available: 3 Insufficient cpu."},
    attributes=ATTRIBUTES,
)


@pytest.mark.parametrize(
    ("document", "spread"),
    [
        (CORE, "330"),
        (MODERN, "330"),
        ({"type": "ADDED", "object": CORE}, "330"),
        (watched(CORE), "330"),
        (watched(MODERN), "330"),
        (OF_RECEIVER, "0"),
    ],
)
def test_each_sender_gives_the_same_event(document: object, spread: str) -> None:
    (event,) = read(document)
    assert (event.event_type, event.cluster, event.source) == ("kubernetes_event", "orders", ":kubernetes-events")
    assert (event.local_time, event.zoned) == (1_700_000_330_000, True)
    assert event.fields == {
        "severity": "Warning",
        "happened": "FailedScheduling",
        "object": "Pod",
        "target": "flink/orders-taskmanager-1-3",
        "times": "3",
        "spread": spread,
        "note": "0/3 nodes are available: 3 Insufficient cpu.",
    }


@pytest.mark.parametrize("document", [{"type": "DELETED", "object": CORE}, watched(MODERN, "DELETED")])
def test_an_event_that_kubernetes_deletes_after_an_hour_is_no_news(document: object) -> None:
    assert read(document) == []


@pytest.mark.parametrize(
    ("about", "cluster"),
    [
        ({"kind": "FlinkDeployment", "name": "orders", "labels": {"app": "team-a"}}, "orders"),
        ({"kind": "FlinkSessionJob", "name": "eu", "labels": {"target.session": "session"}}, "session"),
        (
            {"kind": "Pod", "name": "orders-6d8f9c7b5d-x2x7p", "fieldPath": "spec.containers{flink-main-container}"},
            "orders",
        ),
        ({"kind": "ReplicaSet", "name": "orders-taskmanager-6d8f9c7b5d"}, "orders"),
        ({"kind": "Pod", "name": "flink-kubernetes-operator-6d8f9c7b5d-x2x7p"}, "flink-kubernetes-operator"),
    ],
)
def test_the_cluster_is_that_of_the_object_whatever_the_key_is(about: dict[str, Any], cluster: str) -> None:
    (event,) = read(CORE, UID.encode(), involvedObject={"namespace": "flink", **about})
    assert event.cluster == cluster


def test_a_key_that_names_a_cluster_is_believed_more_than_the_document() -> None:
    assert [event.cluster for event in read(CORE, b"payments/events")] == ["payments"]


def test_events_of_other_pods_are_not_read_and_those_of_nodes_are_as_before() -> None:
    assert read(CORE, involvedObject={"kind": "Pod", "namespace": "web", "name": "nginx-6d8f9c7b5d-x2x7p"}) == []
    message = "Node n1 status is now: NodeNotReady"
    (event,) = read(CORE, UID.encode(), message=message, involvedObject={"kind": "Node", "name": "n1"})
    assert (event.event_type, event.cluster, event.local_time) == ("node_lost", "default", 1_700_000_330_000)


@pytest.mark.parametrize(
    "change",
    [
        {"involvedObject": {"kind": 5}},
        {"involvedObject": {}},
        {"count": -(10**30)},
        {"count": 10**30},
        {"reason": ""},
        {"reason": "Two words\nKubernetes event: x"},
        {"lastTimestamp": "never", "firstTimestamp": "0001-01-01T00:00:00Z", "metadata": {}},
        {"metadata": {"uid": 7}},
        {"series": [], "message": None},
    ],
)
def test_hostile_values_never_raise(change: dict[str, Any]) -> None:
    value = json.dumps({**CORE, **change}).encode()
    Reader(Identity(), frozenset()).read(Record("flink.logs", 0, 0, NOW, None, value))
    nested = json.dumps(watched({**CORE, **change, "a": {"b": {"c": {"d": {"e": {"f": {}}}}}}})).encode()
    Reader(Identity(), frozenset()).read(Record("flink.logs", 0, 0, NOW, None, nested))


@pytest.mark.parametrize("document", [watched(CORE), watched(MODERN), OF_RECEIVER])
def test_a_collector_s_events_are_the_same_in_protobuf(document: dict[str, Any]) -> None:
    value = ParseDict(document, LogsData()).SerializeToString()
    assert any(literal.encode() in value for literal in prefilter(topic_is_metrics=False))
    assert Reader(Identity(), frozenset()).read(Record("flink.logs", 0, 0, NOW, None, value)) == read(document)
