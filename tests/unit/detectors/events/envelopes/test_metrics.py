"""The same sample is the same in every envelope, whoever put its name and labels together."""

import json
import time
from typing import Any

import pytest

from detectors.events.event import MetricEvent, Record, Rejected, Sample
from detectors.events.identity import Identity
from detectors.events.reader import Reader

READER = Reader(Identity(), frozenset({"flink.metrics"}))
AT = 1_795_221_254_563
TM = "localhost:40525_d4d027"
NAME = "flink_taskmanager_Status_JVM_Memory_Heap_Used"
TAGS = {"cluster": "orders", "host": "tm-1", "tm_id": TM}
OWN_TAGS = {**TAGS, "tm_id": "localhost:40525-d4d027"}
SAMPLE = Sample("heap_used", {"tm_id": TM, "host": "tm-1"}, 64392192.0)


def attributes(tags: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": k, "value": {"stringValue": v}} for k, v in tags.items()]


def otlp(name: str, tags: dict[str, str], resource: dict[str, str], **point: Any) -> dict[str, Any]:
    points = {"dataPoints": [{"timeUnixNano": str(AT * 1_000_000), "attributes": attributes(tags), **point}]}
    scopes = [{"metrics": [{"name": name, "gauge": points}]}]
    return {"resourceMetrics": [{"resource": {"attributes": attributes(resource)}, "scopeMetrics": scopes}]}


def line(name: str, field: str, tags: dict[str, str]) -> str:
    return f"{name},{','.join(f'{k}={v}' for k, v in tags.items())} {field} {AT}000000"


NATIVE = {
    "name": NAME,
    "tags": TAGS,
    "timestamp": "2026-11-21T00:34:14.563Z",
    "kind": "absolute",
    "gauge": {"value": 64392192.0},
}
ADAPTER = {"value": "6.4392192e+07", "timestamp": "2026-11-21T00:34:14.563Z", "name": NAME}
VALUES = {
    "telegraf": json.dumps({"fields": {"gauge": 64392192.0}, "name": NAME, "tags": TAGS, "timestamp": AT}),
    "telegraf with a suffix": json.dumps(
        {"fields": {"gauge": 64392192.0}, "name": NAME + "_value", "tags": TAGS, "timestamp": AT}
    ),
    "influx of Telegraf 1": line(NAME, "gauge=64392192", TAGS),
    "influx of Telegraf 2": line("prometheus", f"{NAME}=6.4392192e7,other=1i", TAGS),
    "influx of Flink": line(NAME.removeprefix("flink_"), "value=64392192i", OWN_TAGS),
    "prometheus-kafka-adapter": json.dumps({**ADAPTER, "labels": {"__name__": NAME, **TAGS}}),
    "vector": json.dumps(NATIVE),
    "vector namespace": json.dumps({**NATIVE, "namespace": "flink", "name": NAME.removeprefix("flink_")}),
    "vector native_json": json.dumps({"metric": NATIVE}),
    "otlp": json.dumps(otlp(NAME, TAGS, {"cluster": "orders", "host": "tm-1"}, asDouble=64392192.0)),
    "otlp of Flink": json.dumps(
        otlp(
            NAME.replace("_", "."),
            {"tm_id": OWN_TAGS["tm_id"], "host": "tm-1"},
            {"cluster": "orders", "host.name": "tm-1"},
            asInt="64392192",
        )
    ),
}


OWN_NAME = "taskmanager_Status_JVM_Memory_Heap"


def read(value: str) -> list[MetricEvent]:
    found = READER.read(Record("flink.metrics", 0, 0, AT + 900, None, value.encode()))
    assert not isinstance(found, Rejected), found
    return [e for e in found if isinstance(e, MetricEvent)]


@pytest.mark.parametrize("envelope", VALUES)
def test_a_sample_is_the_same_in_every_envelope(envelope: str) -> None:
    (event,) = read(VALUES[envelope])
    assert event.samples == [SAMPLE]
    assert (event.cluster, event.host, event.time) == ("orders", "tm-1", AT)


SERIES = 'flink_taskmanager_job_task_numRecordsIn{tm_id="t",task_name="a # {b}"}'


@pytest.mark.parametrize(
    "end",
    [
        "5.0",
        "5.0 1795221254.563",
        "5.0 1.795221254563e9",
        "5.0 1795221254563",
        '5.0 # {trace_id="1"} 1',
        '5.0 # {trace_id="1",span_id="{2}"} 0.67 1795221254.563',
        "5.0 1795221254.563 # {} 1.0",
    ],
)
def test_openmetrics_is_read_with_its_times_and_exemplars(end: str) -> None:
    page = f"# TYPE x counter\n{SERIES} {end}\nflink_taskmanager_job_task_numRecordsOut_total 7 # {{}} 1\n# EOF\n"
    (event,) = read(page)
    assert event.samples == [
        Sample("records_in", {"tm_id": "t", "task_name": "a # {b}"}, 5.0),
        Sample("records_out", {}, 7.0),
    ]


@pytest.mark.parametrize(
    "text", ['a{x="' * 100_000, "a 5" + " " * 400_000 + "# {", "a 5 # {" + "} 1" * 100_000 + "x y z"]
)
def test_no_page_takes_long(text: str) -> None:
    start = time.process_time()
    READER.read(Record("flink.metrics", 0, 0, AT, None, f"{text}\n".encode()))
    assert time.process_time() - start < 0.5


def test_lines_of_several_sources_are_several_events() -> None:
    other = {**TAGS, "host": "tm-2"}
    events = read("\n".join(line(NAME, "gauge=1", tags) for tags in (TAGS, other, TAGS)))
    assert [(e.host, len(e.samples)) for e in events] == [("tm-1", 2), ("tm-2", 1)]


def test_escapes_and_texts_of_influx_lines_are_read() -> None:
    name = "taskmanager_job_task_numRecordsIn,task_name=Source:\\ seq\\ ->\\ a\\,b\\=c,host=h"
    (event,) = read(f'{name} count=12i,path="file:/a b,c=\\"d\\"" {AT}000000')
    assert event.samples == [Sample("records_in", {"host": "h", "task_name": "Source:_seq____a_b_c"}, 12.0)]


def test_another_reporter_is_also_counted_as_not_understood() -> None:
    """Most of its records are never decoded, because they hold no name that is searched for."""
    document = {"name": "taskmanager_Status_JVM_Memory", "fields": {"Heap_Used": 5}, "tags": {"host": "tm-1"}}
    found = READER.recognise(Record("flink.metrics", 0, 0, AT, b"orders/tm-1", json.dumps(document).encode()))
    assert found is not None
    assert (found.cluster, found.host, found.understood, found.flink) == ("orders", "tm-1", False, True)


def test_other_names_are_left_out_and_not_rejected() -> None:
    for name in ("flink_taskmanager_Status_JVM_CPU_Load", "cpu", "taskmanagers"):
        assert read(json.dumps({"name": name, "value": 5, "labels": TAGS})) == []
        assert read(json.dumps({"name": name, "fields": {"value": 5}, "tags": TAGS})) == []
    mixed = [{"name": OWN_NAME, "fields": {"value": 5}}, {"name": NAME, "fields": {"gauge": 5}, "tags": TAGS}]
    assert len(read(json.dumps({"metrics": mixed}))) == 1


@pytest.mark.parametrize("value", ["NaN", "+Inf", "no number"])
def test_what_is_no_number_is_left_out(value: str) -> None:
    assert read(json.dumps({**ADAPTER, "value": value, "labels": TAGS})) == []


RECORDS_IN = "flink.taskmanager.job.task.numRecordsIn"


def summed(temporality: object, value: int = 12, **point: Any) -> dict[str, Any]:
    """A counter as Flink's own OpenTelemetry reporter sends it, its cluster in the attributes of the point."""
    tags = {"tm_id": "t-1", "host": "tm-1", "cluster": "orders"}
    document = otlp(RECORDS_IN, tags, {"service.name": "flink"}, asInt=str(value), **point)
    (metric,) = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    metric["sum"] = {**metric.pop("gauge"), "aggregationTemporality": temporality, "isMonotonic": True}
    return document


@pytest.mark.parametrize("temporality", [1, "AGGREGATION_TEMPORALITY_DELTA"])
def test_what_was_added_in_an_interval_is_marked(temporality: object) -> None:
    (event,) = read(json.dumps(summed(temporality)))
    assert event.samples == [Sample("records_in", {"tm_id": "t_1", "host": "tm-1"}, 12.0, until=AT)]
    counter = {**NATIVE, "name": "flink_taskmanager_job_task_numRecordsIn", "kind": "incremental", "gauge": None}
    (event,) = read(json.dumps({**counter, "counter": {"value": 12.0}}))
    assert [(s.value, s.until) for s in event.samples] == [(12.0, AT)]


@pytest.mark.parametrize("temporality", [2, "AGGREGATION_TEMPORALITY_CUMULATIVE", 0, None])
def test_a_sum_of_another_kind_is_a_current_value(temporality: object) -> None:
    (event,) = read(json.dumps(summed(temporality)))
    assert [(s.value, s.until) for s in event.samples] == [(12.0, 0)]


def test_what_was_added_to_a_level_or_at_no_time_is_left_out() -> None:
    assert read(json.dumps({**NATIVE, "kind": "incremental"})) == []
    counter = {**NATIVE, "kind": "incremental", "gauge": None, "counter": {"value": 1.0}, "timestamp": None}
    assert read(json.dumps(counter)) == []
    assert read(json.dumps(summed(1, timeUnixNano="0"))) == []


def test_a_cluster_is_found_in_the_attributes_of_points_if_the_resource_has_none() -> None:
    document = summed(2)
    assert [e.cluster for e in read(json.dumps(document))] == ["orders"]
    points = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["dataPoints"]
    points.append({**points[0], "attributes": attributes({"tm_id": "t-2", "host": "tm-2", "cluster": "billing"})})
    assert [(e.cluster, len(e.samples)) for e in read(json.dumps(document))] == [("orders", 1), ("billing", 1)]
    document["resourceMetrics"][0]["resource"]["attributes"] = attributes({"cluster": "prod"})
    assert [(e.cluster, len(e.samples)) for e in read(json.dumps(document))] == [("prod", 2)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"name": "x"}', "wrong_shape"),
        ('{"resourceMetrics": 5}', "wrong_shape"),
        ('{"metric": {"tags": {}}}', "wrong_shape"),
        (f"{line(NAME, 'gauge=1', TAGS)}\nwhat is this", "not_prometheus"),
        (json.dumps({"cluster": "c", "time_stamp": 1, "job_id": "a", "name": OWN_NAME, "value": 5}), "other_reporter"),
        (
            json.dumps({"name": OWN_NAME, "timestamp": 1, "fields": {"Used": 5}, "tags": {"app_id": "a"}}),
            "other_reporter",
        ),
        (json.dumps({"metrics": [{"name": OWN_NAME, "fields": {"value": 5}}]}), "other_reporter"),
        (json.dumps({"name": "jobmanager.numRunningJobs", "value": 5}), "other_reporter"),
    ],
)
def test_a_document_that_is_no_metric_is_rejected_with_the_reason(value: str, reason: str) -> None:
    found = READER.read(Record("flink.metrics", 0, 0, AT, None, value.encode()))
    assert isinstance(found, Rejected)
    assert found.reason == reason
