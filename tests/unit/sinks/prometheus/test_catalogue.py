"""Laws of every metric: it stands in the table, has a unit, is documented, and Prometheus's own tool finds no fault."""

import ast
import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from detectors import DETECTORS
from detectors.incident import Reading
from sinks.contract.feedback import Feedback
from sinks.prometheus.catalogue import NAMESPACE, READINGS, TABLE, MetricDescription
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.delivery_metrics import set_time
from sinks.prometheus.http_server import Readiness
from sinks.prometheus.reload_metrics import ReloadMetrics, SettingInfo
from streaming.job import watch
from streaming.job.telemetry import Telemetry
from streaming.reference.metrics_page import metrics_page
from tests.unit.sinks.samples import make_transition
from tests.unit.streaming.job.test_telemetry import progress

PROJECT = Path(__file__).parents[4]
EVERYTHING = [one for group in TABLE.values() for one in group]
UNITS = ("_seconds", "_bytes", "_ratio", "_total", "_info")
# What is counted is the unit, and leads the name or ends it.
COUNTED = (
    "checkpoints_",
    "checkpoint_consecutive_",
    "notifications_",
    "incident_active",
    "incident_silenced",
    "state_rows",
    "notification_log_entries",
    "consumer_lag_records",
)
RATES = ("_records_per_second",)
# 1 or 0.
TRUTHS = ("ready", "config_last_reload_successful")
# A number for each word, as the help says.
CODES = ("incident_open",)


def names_said(module: object) -> set[str]:
    """The names of all readings a module makes."""
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    made = [c for c in calls if getattr(c.func, "id", "") == "Reading"]
    named = [k.value for call in made for k in call.keywords if k.arg == "name"]
    assert len(named) == len(made)
    named += [c.args[0] for c in calls if getattr(c.func, "attr", "") == "reading"]
    return {value.value for value in named if isinstance(value, ast.Constant) and isinstance(value.value, str)}


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.kind)
def test_every_reading_of_every_detector_stands_in_the_table(detector: type) -> None:
    said = names_said(sys.modules[detector.__module__])
    assert said <= READINGS.keys()
    for name in said:
        assert READINGS[name].type == "gauge"
        assert "cluster" in READINGS[name].labels


def test_every_reading_in_the_table_is_reported_by_somebody() -> None:
    said = set().union(*(names_said(sys.modules[d.__module__]) for d in DETECTORS)) | names_said(watch)
    assert set(READINGS) - said == {
        *("records_read_total", "records_rejected_total", "entries_ignored_total", "outputs_cut_total"),
        # detectors.engine.entries_cut makes it of the topology of any cluster.
        "cluster_entries_cut_total",
        # detectors.engine.cluster_profile makes them of the topology of any cluster.
        *("flink_info", "flink_setting_info", "checkpoint_size_bytes"),
        *("records_understood_total", "records_not_understood_total", "input_not_understood_ratio"),
    }


@pytest.mark.parametrize("one", EVERYTHING, ids=lambda one: one.name)
def test_every_metric_has_a_unit_and_says_what_it_is(one: MetricDescription) -> None:
    assert one.name.endswith((*UNITS, *RATES)) or one.name.startswith(COUNTED) or one.name in TRUTHS + CODES
    assert (one.type == "counter") == one.name.endswith("_total")
    assert (one.type == "info") == one.name.endswith("_info")
    assert one.help[0].isupper()
    assert one.help.endswith(".")


@pytest.mark.parametrize("one", EVERYTHING, ids=lambda one: one.name)
def test_no_label_is_a_message_an_exception_or_an_id(one: MetricDescription) -> None:
    allowed = {
        "kind",
        "severity",
        "cluster",
        "job",
        "tm",
        "process",
        "source",
        "reason",
        "topic",
        "integration",
        "override",
        "match",
        "what",
    }
    if one.name in ("incident_open", "incident_info"):
        # What an alert is known by; the series end with the incident.
        allowed.add("incident")
    if one.name == "incident_acknowledged_timestamp_seconds":
        # Few, and they end with the incident, too.
        allowed |= {"incident", "person"}
    if one.name == "slack_actions_total":
        allowed |= {"action", "result"}
    if one.name == "flink_setting_info":
        # A short list of keys, whose values are no hosts, paths or secrets.
        allowed |= {"key", "value"}
    assert set(one.labels) <= allowed | {"hash", "version", "check"}


def test_the_page_of_metrics_is_current() -> None:
    """Write it anew with `flinkwatch metrics > docs/metrics.md`."""
    assert (PROJECT / "docs" / "metrics.md").read_text() == metrics_page()


class Shown(NamedTuple):
    """A page of every metric, and what of flinkwatch is behind it."""

    registry: CollectorRegistry
    board: IncidentCollector
    telemetry: Telemetry


def every_metric() -> Shown:
    """Every metric of the table, with at least one series."""
    registry, board, telemetry = CollectorRegistry(), IncidentCollector(wall=lambda: 2_000.0), Telemetry("abc", 1_000)
    registry.register(board)
    registry.register(telemetry)
    registry.register(ReloadMetrics())
    registry.register(SettingInfo("routing_info", lambda: "abc"))
    readiness = Readiness()
    readiness.add("query", lambda: None)
    registry.register(readiness)
    board.delivery.add_receiver("slack")
    set_time(board.delivery.oldest_waiting, "slack", 1_000)
    set_time(board.delivery.unsettled, "slack", 1_000)
    board.delivery.suppressed.labels("slack", "silence")
    board.delivery.skipped.labels("flinkwatch.incidents", "undecodable")
    board.delivery.actions.labels("acknowledge", "done")
    board.delivery.socket_lost.labels("refresh_requested")
    board.show_incident("i", make_transition())
    board.feedback.add(Feedback(incident="i", answer="acknowledged", person="ann", user="U0ANN", at=1))
    board.show_reading("", Reading(name="canary_timestamp_seconds", labels={}, value=2_000.0, at=0))
    telemetry.progressed(progress(0))
    for one in TABLE["readings"]:
        kind = "counter" if one.type == "counter" else "gauge"
        reading = Reading(name=one.name, labels=dict.fromkeys(one.labels, "x"), value=1.0, at=0, type=kind)
        board.show_reading(reading.key(), reading)
    return Shown(registry, board, telemetry)


@pytest.fixture
def everything() -> CollectorRegistry:
    """The page of every metric."""
    return every_metric().registry


def page(registry: CollectorRegistry, accept: str) -> str:
    encode, _ = choose_encoder(accept)
    return bytes(encode(registry)).decode()


def test_the_page_has_every_metric_of_the_table_and_no_other(everything: CollectorRegistry) -> None:
    """With the table's help and type, and no label the table does not know."""
    found = {metric.name: metric for metric in everything.collect()}
    for one in EVERYTHING:
        metric = found.pop(NAMESPACE + one.name.removesuffix("_total").removesuffix("_info"))
        assert (metric.documentation, metric.type) == (one.help, one.type)
        assert metric.samples
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} == set(one.labels)
    assert not found


def test_open_metrics_are_given_to_who_asks_for_them(everything: CollectorRegistry) -> None:
    text = page(everything, "application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    assert len(list(text_string_to_metric_families(text))) == len(EVERYTHING)
    assert "# EOF" not in page(everything, "text/plain")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_promtool_finds_no_fault_with_a_page_of_every_metric(everything: CollectorRegistry) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=page(everything, "text/plain"),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
