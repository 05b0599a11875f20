"""The samples of a Prometheus server as records: each as it was scraped, once, and in order of time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from click.testing import CliRunner

from detectors.events.event import MetricEvent, Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from streaming.cli.replay import replay
from streaming.recordings.prometheus_api import PrometheusApi, PrometheusError, ScrapedSeries, TooManySamplesError
from streaming.recordings.prometheus_samples import TOPIC, PrometheusSamples, authorization
from streaming.recordings.recording import line_of
from tests.prometheus_server import Prometheus, available
from tests.recorded import records
from tests.unit.streaming.recordings.prometheus_answers import Answers
from tests.unit.streaming.recordings.prometheus_blocks import import_scenario

AT = 1_795_168_800
"""A time in seconds."""
HEAP = "flink_taskmanager_Status_JVM_Memory_Heap_Used"


@pytest.fixture
def server() -> Iterator[Answers]:
    with Answers() as answers:
        yield answers


@pytest.mark.skipif(not available(), reason="prometheus is not installed: apt-get install prometheus")
def test_samples_of_a_real_server_show_what_the_recorded_pages_show(tmp_path: Path) -> None:
    """The same transitions: Prometheus keeps the time of each scrape."""
    name = "lag-growing"
    import_scenario(name, name, tmp_path)
    logs, everything = tmp_path / "logs.jsonl", tmp_path / "all.jsonl"
    everything.write_bytes(b"".join(map(line_of, records(name))))
    logs.write_bytes(b"".join(line_of(r) for r in records(name) if r.topic == "flink.logs"))
    with Prometheus(tmp_path) as running:
        found = transitions(logs, "--prometheus", running.url, "--from", "2026-11-20T00:00:00Z", "--to", "0s")
    assert found == transitions(everything)
    assert [t["cause"] for t in found if t["transition"] == "opened"] == ["lag_growing"]


def transitions(*options: object) -> list[dict[str, Any]]:
    done = CliRunner().invoke(replay, [*map(str, options), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [{k: t[k] for k in ("transition", "cause", "at", "incident", "summary", "severity")} for t in found]


def test_windows_share_no_sample_and_leave_none_out(server: Answers) -> None:
    """Prometheus 2 has the beginning of a range in it, Prometheus 3 has not."""
    server.scrapes = [(HEAP, {"instance": "tm-1:9249"}, at) for at in range(0, 900_001, 15_000)]
    found = list(PrometheusSamples(PrometheusApi(server.url)).between(0, 900_000))
    assert [r.timestamp for r in found] == list(range(15_000, 900_001, 15_000))
    assert server.asked("/api/v1/query") == 3


def test_a_window_that_is_too_large_for_the_server_is_halved(server: Answers) -> None:
    server.scrapes = [(HEAP, {"instance": "tm-1:9249"}, at) for at in range(15_000, 300_001, 15_000)]
    server.most = 6
    assert len(list(PrometheusSamples(PrometheusApi(server.url)).between(0, 300_000))) == 20
    server.most = 0
    with pytest.raises(TooManySamplesError, match="--match"):
        list(PrometheusSamples(PrometheusApi(server.url)).between(0, 300_000))


def test_a_record_is_what_one_process_showed_at_one_scrape() -> None:
    metrics = [
        ScrapedSeries({"__name__": HEAP, "instance": "tm-1:9249", "tm_id": "a"}, [(AT + 10.5, "1"), (AT + 25.5, "2")]),
        ScrapedSeries({"__name__": HEAP, "instance": "10.0.0.9:9249", "pod": "tm-2", "tm_id": "b"}, [(AT + 10.5, "3")]),
        ScrapedSeries({"__name__": HEAP, "instance": "tm-1:9249", "tm_id": "c"}, [(AT + 10.5, "NaN")]),
    ]
    samples = PrometheusSamples(PrometheusApi("http://prometheus:9090"), cluster="orders")
    events = [event for record in samples.records(metrics, 0, AT * 2_000) for event in read(record)]
    assert [(e.time - AT * 1_000, e.cluster, e.host, [s.value for s in e.samples]) for e in events] == [
        (10_500, "orders", "tm-1", [1.0]),
        (10_500, "orders", "tm-2", [3.0]),
        (25_500, "orders", "tm-1", [2.0]),
    ]


def test_a_label_that_prometheus_renamed_has_its_own_name_again() -> None:
    labels = {"__name__": HEAP, "instance": "tm-1:9249", "host": "node-7", "exported_host": "tm_1", "cluster": "k8s"}
    samples = PrometheusSamples(PrometheusApi("http://prometheus:9090"), cluster_label="exported_cluster")
    (record,) = samples.records([ScrapedSeries({**labels, "exported_tm_id": "a"}, [(10.0, "1")])], 0, 60_000)
    tags = msgspec.json.decode(record.value or b"")["metrics"][0]["tags"]
    assert (tags["tm_id"], tags["host"], tags["cluster"]) == ("a", "tm-1", "")


def test_a_selector_narrows_names_and_samples(server: Answers) -> None:
    server.scrapes = [(HEAP, {"instance": "tm-1:9249"}, 15_000)]
    list(PrometheusSamples(PrometheusApi(server.url), match=' {job="flink", } ').between(0, 60_000))
    queries = [value for values in server.questions for value in values]
    assert len(queries) == 2
    assert all(query.split("[")[0].endswith('",job="flink"}') for query in queries)


@pytest.mark.parametrize("match", ["up", 'up{job="x"}', "{"])
def test_a_selector_is_labels_in_braces(match: str) -> None:
    with pytest.raises(PrometheusError, match="in braces"):
        PrometheusSamples(PrometheusApi("http://prometheus:9090"), match=match)


def test_metrics_that_no_detector_uses_are_not_read(server: Answers) -> None:
    server.scrapes = [("flink_taskmanager_Status_JVM_CPU_Load", {"instance": "tm-1:9249"}, 15_000)]
    assert list(PrometheusSamples(PrometheusApi(server.url)).between(0, 60_000)) == []
    assert server.asked("/api/v1/query") == 0


@pytest.mark.parametrize(("text", "header"), [("ann:s3cret\n", "Basic YW5uOnMzY3JldA=="), ("t0ken\n", "Bearer t0ken")])
def test_credentials_come_from_a_file(server: Answers, tmp_path: Path, text: str, header: str) -> None:
    (tmp_path / "auth").write_text(text)
    PrometheusApi(server.url, lambda: authorization(tmp_path / "auth")).names("{}", 0, 1_000)
    assert server.authorizations == [header]


def read(record: Record) -> list[MetricEvent]:
    found = Reader(Identity(), frozenset({TOPIC})).read(record)
    assert isinstance(found, list)
    return [event for event in found if isinstance(event, MetricEvent)]


def test_times_of_a_query_are_those_that_the_server_is_asked_for(server: Answers) -> None:
    PrometheusApi(server.url).names("{a}", 1_500, 2_000)
    assert parse_qs(server.paths[0].partition("?")[2])["start"] == ["1.500"]
