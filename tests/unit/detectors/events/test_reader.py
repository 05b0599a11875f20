"""Records become events or a reason; nothing a record holds is an error."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.engine.time_zones import TimeZoneOffsets
from detectors.events.envelopes.logs import REASONS
from detectors.events.event import LogEvent, MetricEvent, Record, Rejected
from detectors.events.identity import Identity
from detectors.events.reader import MAX_NAME, Reader, prefilter
from tests.recorded import NAMES, READER, records

LINE = "2026-11-21 02:13:00,000 INFO  org.apache.flink.X [] - Checkpoint 6 expired before completing."
PAGE = 'flink_jobmanager_job_numberOfInProgressCheckpoints{job_id="a",tm_id="t"} %s\n'
HOUR = 3_600_000


def record(value: bytes | None, topic: str = "flink.logs", **more: object) -> Record:
    fields: dict[str, object] = {"partition": 0, "offset": 0, "timestamp": 1_795_227_180_000, "key": None, **more}
    return Record(topic=topic, value=value, **fields)  # type: ignore[arg-type]


def one(value: bytes, topic: str = "flink.logs", reader: Reader = READER, **more: object) -> LogEvent | MetricEvent:
    read = reader.read(record(value, topic, **more))
    assert isinstance(read, list), read
    (event,) = read
    return event


@pytest.mark.parametrize("name", NAMES)
def test_the_gate_lets_every_record_through_that_has_an_event(name: str) -> None:
    for given_record in records(name):
        read = READER.read(given_record)
        if isinstance(read, Rejected):
            assert (read.reason, given_record.value) == ("empty", b"")
        elif read:
            literals = prefilter(given_record.topic == "flink.metrics")
            assert any(literal.encode() in (given_record.value or b"") for literal in literals)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"x" * 5_000_000, "too_large"),
        (LINE.encode() + b"\xff", "invalid_utf8"),
        ("检查点".encode("gbk"), "invalid_utf8"),
        (b"a\x00b", "nul_byte"),
        (b'{"message": "x', "not_json"),
        (b'{"message": 5}', "wrong_shape"),
        (b"[1, 2]", "wrong_shape"),
        (b'{"other": "x"}', "wrong_shape"),
        (b'{"message": "\\ud800"}', "not_json"),
        (b'{"kubernetes": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "wrong_shape"),
        (b'{"fields": {"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}", "too_deep"),
    ],
)
def test_a_log_record_that_cannot_be_read_is_rejected_with_the_reason(value: bytes | None, reason: str) -> None:
    read = READER.read(record(value))
    assert isinstance(read, Rejected)
    assert read.reason == reason
    assert reason in REASONS


def test_a_blank_line_of_a_log_reports_nothing_but_a_blank_page_of_metrics_is_none() -> None:
    assert READER.read(record(b" \n")) == []
    page = READER.read(record(b" \n", "flink.metrics"))
    assert isinstance(page, Rejected)
    assert page.reason == "empty"


@pytest.mark.parametrize("topic", ["flink.logs", "flink.metrics"])
@settings(max_examples=300, deadline=None)
@given(value=st.one_of(st.binary(), st.text().map(str.encode), st.binary().map(lambda b: b'{"message":"' + b + b'"}')))
def test_no_bytes_are_an_error(topic: str, value: bytes) -> None:
    read = READER.read(record(value, topic))
    assert isinstance(read, list) or read.reason in REASONS


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["message", "log", "fields", "host", "kubernetes", "metrics", "name", "tags", "timestamp"]
                ),
                inner,
            )
        ),
    )
)
def test_no_json_is_an_error(document: object) -> None:
    value = json.dumps(document).encode()
    for topic in ("flink.logs", "flink.metrics"):
        read = READER.read(record(value, topic))
        assert isinstance(read, list) or read.reason in REASONS


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_sample_that_is_no_number_is_left_out(value: str) -> None:
    assert READER.read(record((PAGE % value).encode(), "flink.metrics")) == []
    assert one((PAGE % "3").encode(), "flink.metrics").samples[0].value == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("timestamp", [-1, -(2**63), 2**63 - 1, 0])
@pytest.mark.parametrize("line", [LINE, "java.lang.Exception: Heartbeat of TaskManager with id t timed out."])
def test_any_kafka_timestamp_gives_a_time(timestamp: int, line: str) -> None:
    events = READER.read(record(line.encode(), timestamp=timestamp))
    assert isinstance(events, list)
    assert events
    assert all(isinstance(e, LogEvent) and isinstance(TimeZoneOffsets().event_time(e), int) for e in events)


def test_a_long_message_of_a_throwable_keeps_its_error_after_a_long_path() -> None:
    path = "/data" + "/d" * 200
    (event,) = READER.read(record(f"java.nio.file.FileSystemException: {path}: No space left on device".encode()))
    assert isinstance(event, LogEvent)
    assert event.fields["message"] == "/data" + "/d" * 13 + "/…/d: No space left on device"


def test_names_of_any_length_are_cut() -> None:
    document = {"message": f"x{LINE}"[1:], "fields": {"cluster": "c" * 100_000}, "host": {"name": "h" * 100_000}}
    event = one(json.dumps(document).encode())
    assert (len(event.cluster), len(event.source), len(event.host)) == (MAX_NAME, MAX_NAME, MAX_NAME)


KUBERNETES = {"pod_name": "p", "namespace_name": "ns", "labels": {"app": "orders"}, "container_name": "main"}
FULL = {
    "log": LINE,
    "fields": {"cluster": "by-field"},
    "kubernetes": KUBERNETES,
    "host": "container_e1_1543309871234_0057_01_000004",
}


@pytest.mark.parametrize(
    ("rules", "cluster"),
    [
        (("header", "field", "app", "yarn", "key", "default"), "by-header"),
        (("field", "header"), "by-field"),
        (("app", "field"), "orders"),
        (("namespace/app", "field"), "ns/orders"),
        (("yarn", "field"), "application_1543309871234_0057"),
        (("key",), "by-key"),
        (("default", "key"), "mine"),
        ((), "mine"),
    ],
)
def test_the_first_rule_that_applies_gives_the_cluster(rules: tuple[str, ...], cluster: str) -> None:
    reader = Reader(Identity.model_validate({"cluster": rules, "default": "mine", "envelope": "always"}), frozenset())
    more = {"key": b"by-key/source", "headers": (("cluster", b"by-header"),)}
    assert one(json.dumps(FULL).encode(), reader=reader, **more).cluster == cluster


NAMED_BY_VALUE = {
    "field": {"fields": {"cluster": "victim"}},
    "a layout's field": {"cluster": "victim"},
    "app": {"kubernetes": {"labels": {"app": "victim"}}},
    "a file": {"log": {"file": {"path": "/logs/application_1543309871234_0057/x"}}},
    "a host": {"host": {"name": "container_e1_1543309871234_0057_01_000004"}},
    "a container": {"kubernetes": {"container_name": "container_e1_1543309871234_0057_01_000004"}},
}


@pytest.mark.parametrize("document", NAMED_BY_VALUE.values(), ids=NAMED_BY_VALUE)
@pytest.mark.parametrize("named", [{"key": b"own/tm-1"}, {"headers": (("cluster", b"own"),)}])
def test_a_line_of_a_job_cannot_speak_for_another_cluster(document: dict[str, Any], named: dict[str, Any]) -> None:
    """Raw lines are shipped under the name of their cluster: one that looks like an envelope is no exception."""
    for rules in (Identity().cluster, ("field", "app", "namespace/app", "yarn", "header", "key", "default")):
        reader = Reader(Identity(cluster=rules), frozenset())
        assert one(json.dumps({"message": LINE, **document}).encode(), reader=reader, **named).cluster == "own"
        trusting = Reader(Identity(cluster=rules, envelope="always"), frozenset())
        by_envelope = one(json.dumps({"message": LINE, **document}).encode(), reader=trusting, **named).cluster
        assert by_envelope != "own" or "headers" in named


@pytest.mark.parametrize("key", [b"shop/orders", b"shop/orders/tm-1"])
def test_a_name_that_the_key_gives_as_well_may_come_from_the_value(key: bytes) -> None:
    """Names may hold a slash: namespace/app."""
    document = {"message": LINE, "fields": {"cluster": "shop/orders"}}
    assert one(json.dumps(document).encode(), key=key).cluster == "shop/orders"
    document["fields"] = {"cluster": "shop/order"}
    assert one(json.dumps(document).encode(), key=key).cluster == "shop"


def test_a_key_that_is_no_cluster_and_host_names_one_only_where_nothing_else_does_or_the_operator_reports_so() -> None:
    """Shippers that wrap each line are often keyed by host."""
    document = json.dumps({"message": LINE, "fields": {"cluster": "by-field"}, "host": {"name": "tm-1"}}).encode()
    assert one(document, key=b"tm-1").cluster == "by-field"
    assert one(LINE.encode(), key=b"own").cluster == "own"
    raw = Reader(Identity(envelope="never"), frozenset())
    assert one(document, key=b"own", reader=raw).cluster == "own"


@pytest.mark.parametrize("document", NAMED_BY_VALUE.values(), ids=NAMED_BY_VALUE)
@pytest.mark.parametrize("headers", [(), (("host", b"tm-1"),)], ids=["without headers", "with its host as a header"])
def test_a_line_of_a_job_whose_records_are_keyed_by_host_cannot_either(
    document: dict[str, Any], headers: tuple[tuple[str, bytes], ...]
) -> None:
    value = json.dumps({"message": LINE, **document}).encode()
    assert one(value, key=b"tm-1", headers=headers).cluster == "tm-1"
    layout = json.dumps({"message": LINE, "level": "INFO", **document}).encode()
    assert one(layout, key=b"tm-1", headers=headers).cluster == "tm-1"
    alone = Reader(Identity(cluster=("field", "app", "yarn", "default"), default="mine"), frozenset())
    assert one(value, key=b"tm-1", headers=headers, reader=alone).cluster == "mine"


def test_a_json_line_in_a_raw_text_cannot_either() -> None:
    inner = {"message": LINE, "level": "INFO", "yarnContainerId": "container_e1_1543309871234_0057_01_000004"}
    assert one(f"started\n{json.dumps(inner)}".encode(), key=b"tm-1").cluster == "tm-1"
    assert one(f"started\n{json.dumps(inner)}".encode()).cluster == "application_1543309871234_0057"


@pytest.mark.parametrize(
    ("key", "document"),
    [
        (b"tm-1", {"host": {"name": "tm-1"}}),
        (b"tm-1", {"host": "tm-1.example.com"}),
        (b"tm-1.example.com", {"host": "tm-1"}),
        (b"orders-tm-1", {"kubernetes": {"pod_name": "orders-tm-1"}}),
        (b"orders-tm-1", {"kubernetes": {"pod": {"name": "orders-tm-1"}}}),
        (b"victim", {}),
    ],
)
def test_a_shipper_that_keys_its_documents_by_a_place_in_them_names_the_cluster(
    key: bytes, document: dict[str, Any]
) -> None:
    value = json.dumps({"message": LINE, "fields": {"cluster": "victim"}, **document}).encode()
    assert one(value, key=key).cluster == "victim"
    assert one(value, key=b"tm-10").cluster == "tm-10"
    assert one(value, key=b"tm-10", reader=Reader(Identity(envelope="always"), frozenset())).cluster == "victim"


def test_a_collector_s_attributes_cannot_either() -> None:
    attributes = [{"key": "cluster", "value": {"stringValue": "victim"}}]
    record_ = {"body": {"stringValue": LINE}, "attributes": attributes}
    value = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record_]}]}]}).encode()
    assert one(value, key=b"own/tm-1").cluster == "own"
    assert one(value, key=b"tm-1").cluster == "tm-1"
    assert one(value).cluster == "victim"


def test_what_came_with_a_raw_line_still_names_its_application() -> None:
    """The header names the file, not the value."""
    headers = (("file", b"/logs/application_1543309871234_0057/x"),)
    assert one(LINE.encode(), key=b"node-7", headers=headers).cluster == "application_1543309871234_0057"


def _line(local: int, timestamp: int, source: str = "jm", epoch: int | None = None) -> LogEvent:
    fields = {} if epoch is None else {"epoch": str(epoch)}
    event_type = "checkpoint_expired" if epoch is None else "checkpoint_triggered"
    return LogEvent(event_type, "c", source, source, timestamp, local, "t", 0, 0, fields, "")


@pytest.mark.parametrize("zone", [0, 8 * HOUR, -7 * HOUR, int(5.5 * HOUR), int(5.75 * HOUR)])
def test_the_zone_of_a_source_comes_from_its_trigger_line_else_from_kafka(zone: int) -> None:
    now = 1_795_227_180_000
    by_kafka = TimeZoneOffsets()
    assert by_kafka.event_time(_line(now + zone, now + 3_000)) == now
    by_trigger = TimeZoneOffsets()
    assert by_trigger.event_time(_line(now + zone, now + 5 * HOUR, epoch=now - 20)) == now
    assert by_trigger.event_time(_line(now + zone + 60_000, now + 9 * HOUR)) == now + 60_000


def test_a_shipper_that_lags_for_hours_does_not_move_a_zone_that_was_seen_before() -> None:
    now, zones = 1_795_227_180_000, TimeZoneOffsets()
    assert zones.event_time(_line(now + HOUR, now + 1_000)) == now
    assert zones.event_time(_line(now + HOUR + 60_000, now + 4 * HOUR)) == now + 60_000


def test_the_host_of_a_raw_line_is_in_its_header_else_behind_the_cluster_in_its_key() -> None:
    assert one(LINE.encode(), key=b"orders/tm-1").host == "tm-1"
    assert one(LINE.encode(), key=b"orders/tm-1", headers=(("host", b"node-7"),)).host == "node-7"
    assert one(LINE.encode(), key=b"orders").host == ""


def test_a_line_without_a_time_was_written_as_long_ago_as_its_neighbours() -> None:
    """A shipper that is 40 s behind: what a JVM prints as it dies must not seem to come after its loss."""
    zones = TimeZoneOffsets()
    arrived = 1_795_227_180_000 + 40_000
    line, late = one(LINE.encode(), timestamp=arrived), one(LINE.encode(), timestamp=arrived + 60_000)
    stack = one(b"java.lang.OutOfMemoryError: Java heap space", timestamp=arrived + 5_000)
    assert isinstance(line, LogEvent)
    assert isinstance(late, LogEvent)
    assert isinstance(stack, LogEvent)
    assert zones.event_time(stack) == stack.timestamp
    zones.event_time(line)
    zones.event_time(late)
    assert zones.event_time(stack) == stack.timestamp - 40_000


def test_an_epoch_that_no_zone_explains_teaches_nothing() -> None:
    now, zones = 1_795_227_180_000, TimeZoneOffsets()
    assert zones.event_time(_line(now, now + 1_000, epoch=999_999_999_999_999_999)) == now
    assert zones.learned == {}
