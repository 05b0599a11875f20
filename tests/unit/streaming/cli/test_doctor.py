"""`flinkwatch doctor`: always a list, for live clusters and for files."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from detectors.incident import Reading
from streaming.cli.main import cli
from streaming.errors import PublishedError
from tests.unit.streaming.memory_broker import MemoryBroker

READINGS = "flinkwatch.readings"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryBroker:
    """A folder without any configuration in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLINKWATCH_CONFIG", raising=False)
    made = MemoryBroker()
    monkeypatch.setattr("sinks.kafka.clients.consumer", made.consumer)
    return made


def publish(broker: MemoryBroker, name: str, cluster: str = "prod", **labels: str) -> None:
    reading = Reading(name=name, labels={"cluster": cluster, **labels}, value=1.0, at=1)
    broker.write(READINGS, msgspec.json.encode(reading), reading.key().encode())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["doctor", *map(str, arguments)], catch_exceptions=False)


def documents(*arguments: object) -> list[Any]:
    return [msgspec.json.decode(line) for line in run("--json", *arguments).stdout.splitlines()]


def test_a_live_cluster_is_judged_by_what_the_job_publishes(broker: MemoryBroker) -> None:
    publish(broker, "flink_info", version="1.17.1")
    publish(broker, "flink_setting_info", key="heartbeat.timeout", value="10 s")
    text = run().stdout
    assert text.startswith("Cluster prod, Flink 1.17.1: ")
    assert "  setting     heartbeat.timeout is 10 s. A long garbage collection" in text
    assert "(docs/runbooks/taskmanager_lost.md)" in text
    assert "FLINK-33231, with flink-connector-kafka 3.0.0" in text
    (one,) = documents()
    assert {"rule": "heartbeat-shorter-than-pauses", "seen": "heartbeat.timeout is 10 s"}.items() <= one["risks"][
        1
    ].items()


def test_files_are_judged_by_a_replay(broker: MemoryBroker) -> None:
    log = Path("flink-jobmanager.log")
    lines = [
        "o.a.f.r.e.ClusterEntrypoint [] -  Starting StandaloneSessionClusterEntrypoint (Version: 1.17.1, Rev:2750d5c)",
        "o.a.f.c.GlobalConfiguration [] - Loading configuration property: taskmanager.numberOfTaskSlots, 2",
        "o.a.f.c.GlobalConfiguration [] - Loading configuration property: s3.secret-key, hunter2",
    ]
    log.write_text("".join(f"2026-11-21 02:14:5{n},000 INFO  {line}\n" for n, line in enumerate(lines)))
    (one,) = documents(log)
    assert one["version"] == "1.17.1"
    assert one["settings"] == {"taskmanager.numberOfTaskSlots": "2"}
    assert [risk["rule"] for risk in one["risks"]] == ["no-high-availability"]


def test_issues_of_which_the_first_affected_version_is_unknown_are_listed_on_request(broker: MemoryBroker) -> None:
    publish(broker, "flink_info", version="1.9.1")
    few, all_ = (documents(*options)[0]["known_issues"] for options in ([], ["--all"]))
    assert 0 < len(few) < len(all_)


def test_an_issue_of_another_state_backend_is_not_listed(broker: MemoryBroker) -> None:
    def listed() -> set[str]:
        return {issue["id"] for issue in documents()[0]["known_issues"]}

    publish(broker, "flink_info", version="1.20.4")
    assert "FLINK-39753" in listed()
    publish(broker, "flink_setting_info", key="state.backend.type", value="hashmap")
    assert "FLINK-39753" not in listed()


def test_what_is_unknown_is_said_and_nothing_is_guessed(broker: MemoryBroker) -> None:
    publish(broker, "heap_floor_bytes", tm="\x1b[2J")
    publish(broker, "heap_floor_bytes", cluster="other", tm="a")
    text = run("--cluster", "prod").stdout
    assert text.startswith("Cluster prod: no entries\n  unknown     Flink's version is unknown")
    assert "The settings are unknown." in text
    assert run("--cluster", "none").stdout == "No cluster matches none.\n"


def test_no_topic_is_one_line(broker: MemoryBroker) -> None:
    with pytest.raises(PublishedError, match=r"^Kafka has no topic flinkwatch.readings"):
        run()
