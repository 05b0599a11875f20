"""OTLP says the same in JSON and in protobuf, and what only looks like it is a text or rejected with a reason."""

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from detectors.events.envelopes import otlp_protobuf
from detectors.events.event import Event, LogEvent, MetricEvent, Record, Rejected, Sample
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from streaming.job.prefilter import may_matter

AT = 1_795_227_180_000
JOB = "e04f0bd47405a7a169914793d27ced1f"
LINE = "2026-11-21 02:13:00,000 INFO  org.apache.flink.X [] - Checkpoint 6 expired before completing."
TRACKER = "org.apache.flink.runtime.checkpoint.CheckpointStatsTracker"
LOGS, METRICS = "flink.logs", "flink.metrics"


def attribute(key: str, value: str | float) -> KeyValue:
    found = KeyValue(key=key)
    kind = "string_value" if isinstance(value, str) else "int_value" if isinstance(value, int) else "double_value"
    setattr(found.value, kind, value)
    return found


def read(value: bytes, topic: str = LOGS) -> tuple[list[Event] | Rejected, dict[str, int]]:
    """What is read of a record, and what is passed over."""
    reader = Reader(Identity(), frozenset({METRICS}))
    found = reader.read(Record(topic, 0, 7, AT + 900, None, value))
    return found, dict(reader.ignored[topic])


def both(message: Message, topic: str = LOGS) -> tuple[list[Event], dict[str, int]]:
    """What is read of a message in protobuf, which is the same in JSON."""
    whole = read(message.SerializeToString(deterministic=True), topic)
    for by_name in (False, True):
        text = json_format.MessageToJson(message, use_integers_for_enums=not by_name, indent=None)
        assert read(text.encode(), topic) == whole
    assert isinstance(whole[0], list), whole
    return whole[0], whole[1]


def logs(*lines: str, scope: str = "", **given: str | float) -> LogsData:
    """Log records of one pod."""
    found = LogsData()
    resource = found.resource_logs.add()
    resource.resource.attributes.extend([attribute("k8s.pod.name", "tm-1"), attribute("cluster", "orders")])
    part = resource.scope_logs.add()
    part.scope.name = scope
    for line in lines:
        record = part.log_records.add(time_unix_nano=AT * 1_000_000, severity_text="INFO", severity_number=9)
        record.body.string_value = line
        record.attributes.extend(attribute(k, v) for k, v in given.items())
    return found


def event_of_flink(name: str, scope: str = TRACKER, **given: str | float) -> LogsData:
    """As Flink's OpenTelemetryEventReporter sends it: no body, reported two seconds after it happened."""
    found = logs("", scope=scope, name=name, job_id=JOB, job_name="orders", host="jm-1", **given)
    (record,) = found.resource_logs[0].scope_logs[0].log_records
    record.ClearField("body")
    record.observed_time_unix_nano = (AT - 2_000) * 1_000_000
    return found


def span(name: str, scope: str = TRACKER, took: int = 1_500, **given: str | float) -> TracesData:
    found = TracesData()
    part = found.resource_spans.add().scope_spans.add()
    part.scope.name = scope
    one = part.spans.add(name=name, trace_id=b"t" * 16, span_id=b"s" * 8)
    one.start_time_unix_nano, one.end_time_unix_nano = (AT - took) * 1_000_000, AT * 1_000_000
    one.attributes.extend(attribute(k, v) for k, v in {"job_id": JOB, "job_name": "orders", **given}.items())
    return found


CHECKPOINT: dict[str, str | float] = {"checkpointId": 7, "fullSize": 4096, "checkpointStatus": "COMPLETED"}


def metrics(**points: float) -> MetricsData:
    """Gauges of one TaskManager by name."""
    found = MetricsData()
    resource = found.resource_metrics.add()
    resource.resource.attributes.extend([attribute("cluster", "orders"), attribute("host.name", "tm-1")])
    part = resource.scope_metrics.add()
    for name, value in points.items():
        point = part.metrics.add(name=name).gauge.data_points.add(time_unix_nano=AT * 1_000_000)
        if isinstance(value, int):
            point.as_int = value
        else:
            point.as_double = value
        point.attributes.append(attribute("tm_id", "t-1"))
    return found


def test_a_line_is_the_same_in_both_encodings() -> None:
    (event,), ignored = both(logs(LINE))
    assert isinstance(event, LogEvent)
    assert (event.event_type, event.cluster, event.source) == ("checkpoint_expired", "orders", "tm-1")
    assert ignored == {}


def test_a_batch_of_more_than_half_a_mebibyte_is_read() -> None:
    events, _ = both(logs(*[LINE] * 6_000))
    assert len(events) == 6_000


def test_points_are_the_same_in_both_encodings_and_other_metrics_are_counted() -> None:
    found = metrics(flink_taskmanager_Status_JVM_Memory_Heap_Used=64, flink_other=1.5)
    part = found.resource_metrics[0].scope_metrics[0]
    part.metrics.add(name="h").histogram.data_points.add(count=5)
    part.metrics.add(name="s").summary.data_points.add(count=5)
    part.metrics.add(name="e").exponential_histogram.data_points.add(count=5)
    part.metrics.add(name="flink_taskmanager_Status_JVM_Memory_Heap_Max").gauge.data_points.add()
    (event,), ignored = both(found, METRICS)
    assert isinstance(event, MetricEvent)
    assert event.samples == [Sample("heap_used", {"tm_id": "t-1"}, 64.0)]
    assert (event.cluster, event.host, event.time) == ("orders", "tm-1", AT)
    assert ignored == {"unknown_metric": 1, "histogram": 3, "no_value": 1}


@pytest.mark.parametrize(("temporality", "until"), [(0, 0), (1, AT), (2, 0)])
def test_a_sum_is_the_same_in_both_encodings(temporality: Any, until: int) -> None:
    found = MetricsData()
    metric = (
        found.resource_metrics.add().scope_metrics.add().metrics.add(name="flink.taskmanager.job.task.numRecordsIn")
    )
    metric.sum.aggregation_temporality = temporality
    metric.sum.data_points.add(as_int=12, time_unix_nano=AT * 1_000_000)
    metric.sum.data_points.add(as_int=12)
    (event,), ignored = both(found, METRICS)
    assert isinstance(event, MetricEvent)
    assert {(s.value, s.until) for s in event.samples} == {(12.0, until)}
    assert ignored == ({"no_time": 1} if until else {})


def test_a_checkpoint_event_of_flink_is_a_checkpoint() -> None:
    (event,), _ = both(event_of_flink("CheckpointEvent", **CHECKPOINT))
    assert isinstance(event, LogEvent)
    assert (event.event_type, event.local_time, event.zoned) == ("checkpoint_completed", AT - 2_000, True)
    assert event.fields == {"checkpoint": "7", "job": JOB, "bytes": "4096"}
    (event,), _ = both(event_of_flink("CheckpointEvent", **{**CHECKPOINT, "checkpointStatus": "FAILED"}))
    assert isinstance(event, LogEvent)
    assert event.event_type == "checkpoint_failed"


def test_a_checkpoint_span_has_its_duration() -> None:
    (event,), _ = both(span("Checkpoint", **CHECKPOINT))
    assert isinstance(event, LogEvent)
    assert (event.event_type, event.local_time) == ("checkpoint_completed", AT)
    assert event.fields == {"checkpoint": "7", "job": JOB, "bytes": "4096", "duration": "1500"}


def test_a_change_of_a_job_s_state_is_read_and_its_name_cannot_break_the_line() -> None:
    found = event_of_flink(
        "JobStatusChangeEvent", "org.apache.flink.runtime.jobmaster.JobMaster", newJobStatus="RUNNING"
    )
    record = found.resource_logs[0].scope_logs[0].log_records[0]
    next(a for a in record.attributes if a.key == "job_name").value.string_value = f"orders\n{LINE}"
    events, _ = both(found)
    assert [(e.event_type, e.fields["state"]) for e in events if isinstance(e, LogEvent)] == [("job_state", "RUNNING")]


def test_a_failure_of_a_job_is_read_with_its_labels_in_order_and_they_cannot_break_the_line() -> None:
    labels: dict[str, str | float] = {"failureLabel.TYPE": f"USER\n{LINE}", "failureLabel.CODE": 17}
    (event,), _ = both(event_of_flink("JobFailureEvent", canRestart="true", isGlobalFailure="false", **labels))
    assert isinstance(event, LogEvent)
    assert (event.event_type, event.local_time) == ("job_failure_reported", AT - 2_000)
    assert event.fields == {"job": JOB, "restarts": "true", "labels": f"CODE=17, TYPE=USER {' '.join(LINE.split())}"}


def test_a_failure_without_labels_of_a_job_whose_scheduler_does_not_know_whether_it_restarts_is_read() -> None:
    (event,), _ = both(event_of_flink("JobFailureEvent"))
    assert isinstance(event, LogEvent)
    assert event.fields == {"job": JOB}


@pytest.mark.parametrize("status", ["ALL_RUNNING_OR_FINISHED", "NOT_ALL_RUNNING_OR_FINISHED"])
def test_whether_all_subtasks_run_is_read(status: str) -> None:
    (event,), _ = both(event_of_flink("AllSubtasksStatusChangeEvent", status=status))
    assert isinstance(event, LogEvent)
    assert (event.event_type, event.fields) == ("all_subtasks_status", {"job": JOB, "status": status})


def test_other_events_and_spans_are_counted() -> None:
    assert both(event_of_flink("SomeEvent", status="ALL_RUNNING_OR_FINISHED")) == ([], {"no_text": 1})
    assert both(span("JobInitialization", MaxGateRestoreDurationMs=5)) == ([], {"span": 1})
    assert both(span("Checkpoint", "com.example.Shop", **CHECKPOINT)) == ([], {"span": 1})
    nothing = logs("")
    nothing.resource_logs[0].scope_logs[0].log_records[0].ClearField("body")
    assert both(nothing) == ([], {"no_text": 1})


def test_a_record_of_a_job_is_no_event_of_flink() -> None:
    assert both(event_of_flink("CheckpointEvent", "com.example.Shop", **CHECKPOINT)) == ([], {"no_text": 1})


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_message_says_the_same_in_both_encodings(seed: int) -> None:
    chance = random.Random(seed)
    words: list[str | float] = [LINE, "", "a\nb", "\0", "检查点", "x" * 700, 5, -(2**63), 2**62, 0.5, "cluster", JOB]
    keys = ["cluster", "host.name", "k8s.pod.name", "tm_id", "job_id", "name", *CHECKPOINT, "newJobStatus", "job_name"]
    given_attributes = {chance.choice(keys): chance.choice(words) for _ in range(chance.randrange(6))}
    lines = [str(chance.choice(words)) for _ in range(chance.randrange(4))]
    made = logs(*lines, scope=chance.choice([TRACKER, ""]), **given_attributes)
    if chance.random() < 0.5:
        made.MergeFrom(event_of_flink(chance.choice(["CheckpointEvent", "JobStatusChangeEvent"])))
    both(made)
    names = ["flink_taskmanager_Status_JVM_Memory_Heap_Used", "flink.taskmanager.job.task.numRecordsIn", "x"]
    both(metrics(**{n: chance.choice([1, -5, 2**62, 0.25, 1e300]) for n in chance.sample(names, 2)}), METRICS)
    both(span(chance.choice(["Checkpoint", "x"]), took=chance.choice([0, 5, -5]), **CHECKPOINT))


HOSTILE = {
    "a length of 100 MB": b"\n\x80\x80\x80\x30" + b"x" * 40,
    "a length of 64 bits": b"\n" + b"\xff" * 9 + b"\x01" + b"x",
    "a length without an end": b"\n" + b"\xff" * 40,
    "cut": logs(LINE).SerializeToString()[:-3],
    "an inner length": b"\n\x03\x12\x7f\x00",
    "another field": logs(LINE).SerializeToString() + b"\x12\x00",
    "no UTF-8": logs("abcd").SerializeToString().replace(b"abcd", b"ab\xff\xfe"),
    "many parts": b"\n\x00" * 20_000,
}


def nested(depth: int) -> bytes:
    """A log record whose body is a list in a list in a list …"""

    def part(field: int, inner: bytes) -> bytes:
        size, length = len(inner), b""
        while size > 0x7F:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        return bytes([field << 3 | 2]) + length + bytes([size]) + inner

    value = part(1, b"deep")
    for _ in range(depth):
        value = part(5, part(1, value))
    return part(1, part(2, part(2, part(5, value))))


@pytest.mark.parametrize("topic", [LOGS, METRICS])
@pytest.mark.parametrize("what", HOSTILE)
def test_damaged_protobuf_is_rejected_with_the_reason(what: str, topic: str) -> None:
    found, _ = read(HOSTILE[what], topic)
    if topic == METRICS and what == "no UTF-8":
        # The body of a log record is no part of a metric.
        return
    assert isinstance(found, Rejected)
    assert found.reason == "not_otlp"


def test_deep_nesting_is_rejected_or_passed_over() -> None:
    assert read(nested(10))[1] == {"no_text": 1}
    found, _ = read(nested(5_000))
    assert isinstance(found, Rejected)
    assert found.reason == "not_otlp"


def test_a_record_beyond_the_limit_is_rejected() -> None:
    whole = logs("x" * (17 * 1024 * 1024)).SerializeToString()
    for topic in (LOGS, METRICS):
        found, _ = read(whole, topic)
        assert isinstance(found, Rejected)
        assert found.reason == "too_large"


@pytest.mark.parametrize("text", [f"\n{LINE}", f"\n\n{LINE}\n", f"\n  {LINE}", "\n}\n" + LINE.ljust(124)[:124] + "\n"])
def test_a_text_that_begins_with_a_line_feed_stays_a_text(text: str) -> None:
    found, _ = read(text.encode())
    assert isinstance(found, list)
    assert [e.event_type for e in found if isinstance(e, LogEvent)] == ["checkpoint_expired"]


@pytest.mark.parametrize("topic", [LOGS, METRICS])
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_bytes_like_protobuf_are_an_error(topic: str, data: st.DataObject) -> None:
    found = metrics(x=1) if topic == METRICS else data.draw(st.sampled_from([logs(LINE), span("Checkpoint")]))
    whole = bytearray(found.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        whole = whole or bytearray(b"\n")
    got, _ = read(bytes(whole), topic)
    assert isinstance(got, list) or got.reason
    got, _ = read(b"\n" + data.draw(st.binary(max_size=60)), topic)
    assert isinstance(got, list) or got.reason
    otlp_protobuf.has_spans(bytes(whole))


def test_the_search_over_raw_bytes_passes_what_matters_and_leaves_out_the_rest() -> None:
    calm = "2026-11-21 02:13:00,000 INFO  x.Y [] - an ordinary line"
    values = [
        logs(LINE).SerializeToString(),
        logs(calm).SerializeToString(),
        calm.encode(),
        event_of_flink("CheckpointEvent", **CHECKPOINT).SerializeToString(),
        span("Checkpoint", **CHECKPOINT).SerializeToString(),
        span("Checkout", "com.example").SerializeToString(),
        HOSTILE["cut"],
        None,
        f"\n{calm}".encode(),
    ]
    expected = [True, False, False, True, True, False, True, True, False]
    assert may_matter(pa.array(values, pa.binary()), metrics=False).to_pylist() == expected
    pages = [metrics(flink_taskmanager_Status_JVM_Memory_Heap_Used=1), metrics(x=1), span("x")]
    found = may_matter(pa.array([p.SerializeToString() for p in pages], pa.binary()), metrics=True)
    assert found.to_pylist() == [True, False, False]


def test_the_json_of_the_specification_s_example_is_read() -> None:
    """Times and integers as texts, as the collector writes them."""
    document = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": TRACKER}, "spans": [{"name": "Checkpoint"}]}]}]}
    assert read(json.dumps(document).encode()) == ([], {})
