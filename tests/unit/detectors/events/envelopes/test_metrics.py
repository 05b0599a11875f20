"""The same sample is the same in every envelope, whoever put its name and labels together."""

import json
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


def read(value: str) -> list[MetricEvent]:
    found = READER.read(Record("flink.metrics", 0, 0, AT + 900, None, value.encode()))
    assert not isinstance(found, Rejected), found
    return [e for e in found if isinstance(e, MetricEvent)]


@pytest.mark.parametrize("envelope", VALUES)
def test_a_sample_is_the_same_in_every_envelope(envelope: str) -> None:
    (event,) = read(VALUES[envelope])
    assert event.samples == [SAMPLE]
    assert (event.cluster, event.host, event.time) == ("orders", "tm-1", AT)


def test_lines_of_several_sources_are_several_events() -> None:
    other = {**TAGS, "host": "tm-2"}
    events = read("\n".join(line(NAME, "gauge=1", tags) for tags in (TAGS, other, TAGS)))
    assert [(e.host, len(e.samples)) for e in events] == [("tm-1", 2), ("tm-2", 1)]


def test_escapes_and_texts_of_influx_lines_are_read() -> None:
    name = "taskmanager_job_task_numRecordsIn,task_name=Source:\\ seq\\ ->\\ a\\,b\\=c,host=h"
    (event,) = read(f'{name} count=12i,path="file:/a b,c=\\"d\\"" {AT}000000')
    assert event.samples == [Sample("records_in", {"host": "h", "task_name": "Source:_seq____a_b_c"}, 12.0)]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "no number"])
def test_what_is_no_number_is_left_out(value: str) -> None:
    assert read(json.dumps({**ADAPTER, "value": value, "labels": TAGS})) == []


def test_what_grows_with_each_record_is_not_taken_for_a_level() -> None:
    assert read(json.dumps({**NATIVE, "kind": "incremental"})) == []
    delta = json.loads(VALUES["otlp"].replace('"gauge"', '"sum"'))
    delta["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["aggregationTemporality"] = 1
    assert read(json.dumps(delta)) == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"name": "x"}', "wrong_shape"),
        ('{"resourceMetrics": 5}', "wrong_shape"),
        ('{"metric": {"tags": {}}}', "wrong_shape"),
        (f"{line(NAME, 'gauge=1', TAGS)}\nwhat is this", "not_prometheus"),
    ],
)
def test_a_document_that_is_no_metric_is_rejected_with_the_reason(value: str, reason: str) -> None:
    found = READER.read(Record("flink.metrics", 0, 0, AT, None, value.encode()))
    assert isinstance(found, Rejected)
    assert found.reason == reason
