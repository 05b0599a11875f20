"""Records of each format that docs/inputs.md lists have a name that a person knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.events.identity import Origin
from detectors.events.layouts.json_layout import LoggedLine
from streaming.inspection.formats import envelope_of, layout_of

LINE = "2026-11-21 02:14:50,000 INFO  o.a.f.r.c.CheckpointCoordinator [] - x"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (LINE.encode(), "raw lines"),
        (b'{"@timestamp": "x", "@metadata": {}, "message": "x"}', "Filebeat JSON"),
        (b'{"log": "x", "kubernetes": {"labels": {}}}', "Fluent Bit JSON"),
        (b'{"message": "x", "source_type": "file"}', "Vector JSON"),
        (b'{"message": "x", "@version": "1", "path": "/x"}', "Logstash JSON"),
        (b'{"MESSAGE": "x", "_HOSTNAME": "a"}', "journald JSON"),
        (b'{"log": "x", "stream": "stdout", "time": "x"}', "Docker's json-file"),
        (b'{"resourceLogs": []}', "OpenTelemetry JSON"),
        (b'{"involvedObject": {}}', "Kubernetes event"),
        (b'{"level": "INFO", "message": "x"}', "JSON documents"),
        (b"{torn", "raw lines"),
    ],
)
def test_the_envelope_of_a_log_record(value: bytes, name: str) -> None:
    assert envelope_of(value, metrics=False) == name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b'# HELP a\nflink_x{a="b"} 1\n', "Prometheus text"),
        (b"jvm,host=a value=1 1\n", "influx lines"),
        (b'{"fields": {}, "name": "x", "tags": {}, "timestamp": 1}', "Telegraf JSON"),
        (b'{"metrics": []}', "Telegraf JSON"),
        (b'{"labels": {}, "name": "x", "timestamp": "x", "value": "1"}', "prometheus-kafka-adapter JSON"),
        (b'{"name": "x", "gauge": {"value": 1}}', "Vector JSON"),
        (b'{"resourceMetrics": []}', "OpenTelemetry JSON"),
    ],
)
def test_the_envelope_of_a_metric_record(value: bytes, name: str) -> None:
    assert envelope_of(value, metrics=True) == name


@given(st.binary(), st.booleans())
def test_no_record_has_no_name(value: bytes, metrics: bool) -> None:
    assert envelope_of(value, metrics)


def test_the_layout_says_whether_the_zone_of_a_time_is_known() -> None:
    zoned = LINE.replace(",000", ",000Z")
    assert layout_of((LINE, Origin(), None)) == "text layout in local time"
    assert layout_of((f"no time\n{zoned}", Origin(), None)) == "text layout with a zone"
    assert layout_of(("no time", Origin(), None)) == ""
    assert layout_of(("x", Origin(), LoggedLine("x", 0, True, "", "", ""))) == "JSON layout"
