"""What a scrape shows, and the page it comes from."""

import http.client
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from detectors.incident import Reading
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.http_server import PrometheusConfig, StatusServer
from tests.unit.sinks.samples import make_transition


@pytest.fixture
def page() -> Iterator[StatusServer]:
    page = StatusServer(PrometheusConfig(address="127.0.0.1", port=0))
    page.start()
    yield page
    page.stop()


def get(page: StatusServer, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def scrape(page: StatusServer) -> dict[str, float]:
    """Samples by "name{label=value,...}", read by Prometheus's own parser."""
    status, text = get(page, "/metrics")
    assert status == 200
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        sample.name + "{" + ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items())) + "}": sample.value
        for sample in samples
    }


@pytest.fixture
def board(page: StatusServer) -> IncidentCollector:
    board = IncidentCollector()
    page.registry.register(board)
    return board


ACTIVE = "flinkwatch_incident_active{cluster=prod-eu,job=orders-enrichment,kind=checkpoint_overdue,severity=warning}"


def test_an_incident_is_active_until_it_is_resolved(page: StatusServer, board: IncidentCollector) -> None:
    board.show_incident("i", make_transition(incident="i"))
    assert scrape(page)[ACTIVE] == 1
    board.show_incident("i", make_transition(incident="i", transition="stale"))
    assert scrape(page)[ACTIVE] == 1, "silence is no recovery"
    board.show_incident("i", make_transition(incident="i", transition="resolved"))
    assert ACTIVE not in scrape(page)


def test_a_series_vanishes_with_its_tombstone(page: StatusServer, board: IncidentCollector) -> None:
    board.show_incident("i", make_transition(incident="i"))
    board.show_incident("i", None)
    reading = Reading(name="heap_floor_bytes", labels={"cluster": "c", "tm": "tm-1"}, value=5e8, at=1)
    board.show_reading(reading.key(), reading)
    assert scrape(page)["flinkwatch_heap_floor_bytes{cluster=c,tm=tm-1}"] == 5e8
    board.show_reading(reading.key(), None)
    assert not {name for name in scrape(page) if "heap_floor" in name or "incident_active" in name}


def test_incidents_with_the_same_labels_are_counted(page: StatusServer, board: IncidentCollector) -> None:
    for name in ("i", "j"):
        board.show_incident(name, make_transition(incident=name))
    assert scrape(page)[ACTIVE] == 2


def test_the_first_incident_of_a_kind_is_an_increase(page: StatusServer, board: IncidentCollector) -> None:
    opened = make_transition()
    series = f"flinkwatch_incidents_total{{kind={opened.cause},severity={opened.severity}}}"
    assert scrape(page)[series] == 0
    board.delivery.count_opened(opened)
    assert scrape(page)[series] == 1


def test_no_message_and_no_id_but_that_of_an_open_incident_is_a_label(
    page: StatusServer, board: IncidentCollector
) -> None:
    incident = make_transition()
    board.show_incident(incident.incident, incident)
    board.delivery.count_opened(incident)
    text = get(page, "/metrics")[1]
    assert {line.partition("{")[0] for line in text.splitlines() if incident.incident in line} == {
        "flinkwatch_incident_open",
        "flinkwatch_incident_info",
    }
    own = [line for line in text.splitlines() if line.startswith("flinkwatch_")]
    for part in (incident.job_id, incident.summary, "4711", incident.config):
        assert not any(part in line for line in own)


def test_counters_of_the_job_are_summed_over_its_buckets(page: StatusServer, board: IncidentCollector) -> None:
    for bucket, value in (("0", 10.0), ("1", 32.0)):
        labels = {"bucket": bucket, "reason": "not_json"}
        reading = Reading(name="records_rejected_total", labels=labels, value=value, at=1, type="counter")
        board.show_reading(reading.key(), reading)
    assert scrape(page)["flinkwatch_records_rejected_total{reason=not_json}"] == 42
    text = get(page, "/metrics")[1]
    assert "# TYPE flinkwatch_records_rejected_total counter" in text
    assert "# HELP flinkwatch_records_rejected_total Records that could not be read" in text


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("with space", {}),
        ("", {}),
        ("ok", {"a-b": "c"}),
        ("ok", {"__name__": "c"}),
        ("incidents_total", {}),
        ("incident_active", {}),
        ("build_info", {}),
        ("notifications_failed_total", {}),
    ],
)
def test_a_reading_that_would_break_the_page_is_refused(
    page: StatusServer, board: IncidentCollector, name: str, labels: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="name"):
        board.show_reading("k", Reading(name=name, labels=labels, value=1.0, at=1))
    scrape(page)


def test_readings_of_any_value_and_label_text_can_be_scraped(page: StatusServer, board: IncidentCollector) -> None:
    for number, value in enumerate((float("nan"), float("inf"), -1e308, 0.0)):
        labels = {"cluster": f'"quoted" \\ \n line {number} 名'}
        board.show_reading(str(number), Reading(name="slope", labels=labels, value=value, at=1))
    assert len([name for name in scrape(page) if name.startswith("flinkwatch_slope")]) == 4


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["cluster", "job", "tm_id"]), st.text(), min_size=1))
def test_no_text_of_a_label_adds_a_series_or_a_line(labels: dict[str, str]) -> None:
    """Whatever a log says of a job's name: the page has the one sample, with that very label."""
    board, registry = IncidentCollector(), CollectorRegistry()
    registry.register(board)
    before = generate_latest(registry).decode().split("\n")
    board.show_reading("k", Reading(name="slope", labels=labels, value=1.0, at=1))
    added = [line for line in generate_latest(registry).decode().split("\n") if line not in before]
    samples = [line for line in added if not line.startswith("#")]
    assert len(samples) == 1
    shown = re.fullmatch(r"flinkwatch_slope\{(.*)\} 1\.0", samples[0])
    assert shown is not None
    pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)', shown[1])
    assert {k: re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), v) for k, v in pairs} == labels


def test_failures_start_at_zero_with_alertmanagers_reasons(page: StatusServer, board: IncidentCollector) -> None:
    board.delivery.add_receiver("slack")
    board.delivery.count_attempt("slack", None)
    board.delivery.count_attempt("slack", "rateLimited")
    samples = scrape(page)
    assert samples["flinkwatch_notifications_total{integration=slack}"] == 2
    failures = {name: value for name, value in samples.items() if "notifications_failed_total" in name}
    assert len(failures) == 6
    assert sum(failures.values()) == 1
    assert failures["flinkwatch_notifications_failed_total{integration=slack,reason=rateLimited}"] == 1
    assert samples["flinkwatch_notifications_queue_length{integration=slack}"] == 0


def test_the_page_tells_its_version_and_process(page: StatusServer, board: IncidentCollector) -> None:
    samples = scrape(page)
    assert any(name.startswith("flinkwatch_build_info{version=") for name in samples)
    assert samples["process_resident_memory_bytes{}"] > 0


def test_healthy_always_ready_only_when_every_check_passes(page: StatusServer) -> None:
    problems: dict[str, str | None] = {"query": "no batch has finished yet", "readings": "12 records behind"}
    page.add_readiness_check("query", lambda: problems["query"])
    page.add_readiness_check("readings", lambda: problems["readings"])
    assert get(page, "/-/healthy")[0] == 200
    status, text = get(page, "/-/ready")
    assert (status, text) == (503, "query: no batch has finished yet\nreadings: 12 records behind\n")
    assert scrape(page)["flinkwatch_ready{check=query}"] == 0
    problems.update(query=None)
    found = scrape(page)
    assert (found["flinkwatch_ready{check=query}"], found["flinkwatch_ready{check=readings}"]) == (1, 0)
    problems.update(readings=None)
    assert get(page, "/-/ready")[0] == 200


def test_other_paths_and_methods(page: StatusServer) -> None:
    assert get(page, "/nothing")[0] == 404
    assert get(page, "/")[0] == 200
    assert get(page, "/metrics?debug=1")[0] == 200
    assert get(page, "/metrics", "HEAD") == (200, "")


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/ready", "/-/healthy", "/-/reload", "/-/quit", "/silences"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_whatever_could_change_something_is_refused(page: StatusServer, path: str, method: str) -> None:
    assert get(page, path, method) == (405, "")


def test_a_taken_port_is_named(page: StatusServer) -> None:
    other = StatusServer(PrometheusConfig(address="127.0.0.1", port=page.port))
    with pytest.raises(OSError, match=f"sinks.prometheus: cannot listen on 127.0.0.1:{page.port}"):
        other.start()
