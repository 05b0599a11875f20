"""`flinkwatch inputs`: what arrives from each cluster, from the newest records."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from detectors.incident import Reading
from streaming.cli.main import cli
from streaming.errors import PublishedError
from streaming.recordings.recording import records_of
from tests.recorded import recording
from tests.unit.streaming.memory_broker import MemoryBroker

READINGS = "flinkwatch.readings"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryBroker:
    """A folder without any configuration in it, and a broker with the topics of an installation."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLINKWATCH_CONFIG", raising=False)
    made = MemoryBroker()
    made.create("flink.logs", "flink.metrics", READINGS)
    monkeypatch.setattr("sinks.kafka.clients.consumer", made.consumer)
    return made


def play(broker: MemoryBroker, name: str) -> None:
    for r in records_of(recording(name)):
        broker.write(r.topic, r.value, r.key, r.timestamp, 0, r.headers)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["inputs", *arguments], catch_exceptions=False)


def documents(*arguments: str) -> list[Any]:
    return [msgspec.json.decode(line) for line in run("--json", *arguments).stdout.splitlines()]


def test_each_cluster_has_its_hosts_formats_zone_and_what_is_missing(broker: MemoryBroker) -> None:
    play(broker, "late-barrier-acks")
    text = run().stdout
    assert text.startswith("Cluster clickstream\n  logs        last log line ")
    assert "Filebeat JSON, text layout in local time" in text
    assert "  hosts       3: jm-1, tm-1, tm-2\n" in text
    assert "  time zone   UTC, learned from checkpoint lines\n" in text
    assert "numLateRecordsDropped (normal without windows in event time): not found: late_records_dropped" in text
    assert "Read the newest 165 records of flink.metrics, 2026-11-21 02:10:56Z to 2026-11-21 02:15:26Z.\n" in text
    (one,) = documents()
    assert (one["cluster"], one["zone"]) == ("clickstream", {"offsets": [0], "learned": True})
    assert "backpressure" not in one["blind"]


def test_a_cluster_without_metrics_names_the_kinds_that_are_not_found(broker: MemoryBroker) -> None:
    play(broker, "taskmanager-killed-1.9.3")
    broker.logs = {p: log for p, log in broker.logs.items() if p.topic != "flink.metrics"}  # type: ignore[assignment]
    done = run()
    assert "all metrics: not found: backpressure, lag_growing, late_records_dropped, task_stuck" in done.stdout
    assert "Warning: Kafka has no topic flink.metrics.\n" in done.stderr


def test_only_the_clusters_that_are_asked_for_are_shown(broker: MemoryBroker) -> None:
    play(broker, "taskmanager-killed-1.9.3")
    play(broker, "lag-growing")
    assert len(documents()) == 2
    assert [one["cluster"] for one in documents("--cluster", "lag-*")] == ["lag-growing"]
    assert "No such cluster in the newest records." in run("--cluster", "x").stdout


def test_a_cluster_that_is_known_from_readings_alone_is_shown(broker: MemoryBroker) -> None:
    labels = {"cluster": "old", "process": "tm-\x1b[2J"}
    reading = Reading(name="last_sample_timestamp_seconds", labels=labels, value=1.0, at=1_000)
    broker.write(READINGS, msgspec.json.encode(reading), b"k")
    text = run().stdout
    assert "at 1970-01-01 00:00:01Z; none in the newest records" in text
    assert "\x1b" not in text


def test_no_topic_and_no_broker_are_one_line(broker: MemoryBroker) -> None:
    broker.logs.clear()
    with pytest.raises(PublishedError, match=r"^Kafka has no topic flinkwatch.readings"):
        run()
    broker.create(READINGS)
    with pytest.raises(PublishedError, match=r"^Kafka has no topic flink.logs, flink.metrics: kafka.logs and"):
        run()
    broker.down = True
    with pytest.raises(PublishedError, match="no Kafka broker answers"):
        run("--timeout", "1s")
