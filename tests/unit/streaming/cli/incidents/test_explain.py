"""`flinkwatch explain`: changes, proof, rule and recomputation of an incident, from the topics alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from detectors.incident import Transition
from detectors.settings.live import CONFIG_KEY, LiveSettings, encode_published, publish
from streaming.cli.main import cli
from streaming.configuration.settings import Settings
from streaming.errors import PublishedError
from streaming.inspection.recomputation import replay_cluster
from streaming.recordings.recording import line_of, records_of
from tests.recorded import recording
from tests.unit.streaming.memory_broker import MemoryBroker

INCIDENTS = "flinkwatch.incidents"
CLUSTER = "flink-1.9.3"
LIVE = LiveSettings.model_validate(
    {
        "detectors": {"taskmanager_lost": {"confirmation_delay": "3s"}},
        "overrides": [{"cluster": "flink-*", "detectors": {"taskmanager_lost": {"recovered_without": "6m"}}}],
    }
)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryBroker:
    """A folder without any configuration in it, and a broker with an installation that has seen a lost TaskManager."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLINKWATCH_CONFIG", raising=False)
    made = MemoryBroker()
    made.create("flinkwatch.config", INCIDENTS, "flink.logs", "flink.metrics")
    made.write("flinkwatch.config", encode_published(publish(LIVE, 0, "ann")), CONFIG_KEY)
    # Another offset than in the recording, since each partition begins at 0.
    offsets: dict[Any, int] = {}
    renumbered = tmp_path / "renumbered.jsonl"
    with renumbered.open("wb") as file:
        for r in records_of(recording("taskmanager-killed-1.9.3")):
            number = offsets[r.topic] = offsets.get(r.topic, -1) + 1
            made.write(r.topic, r.value, r.key, r.timestamp, 0, r.headers)
            file.write(line_of(msgspec.structs.replace(r, partition=0, offset=number)))
    settings = Settings(detectors=LIVE.detectors, overrides=LIVE.overrides)
    for t in replay_cluster(settings, renumbered, CLUSTER):
        made.write(INCIDENTS, msgspec.json.encode(t), t.incident.encode(), t.at)
    monkeypatch.setattr("sinks.kafka.clients.consumer", made.consumer)
    return made


def stored(broker: MemoryBroker) -> list[Transition]:
    decode: Callable[[bytes], Transition] = msgspec.json.Decoder(Transition).decode
    return [decode(r.value) for p, log in broker.logs.items() if p.topic == INCIDENTS for r in log if r.value]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, arguments)], catch_exceptions=False)


def document(*arguments: object) -> Any:
    return msgspec.json.decode(run("--json", *arguments).stdout)


def test_an_incident_is_explained_and_reproduced(broker: MemoryBroker) -> None:
    first = stored(broker)[0]
    text = run(first.incident).stdout
    assert text.startswith(f"Incident {first.incident}: TaskManager lost")
    assert "opened, critical: TaskManager" in text
    assert "Opens `confirmation_delay` after the first hard line" in text
    assert text.splitlines()[-1].startswith("reproduced: yes (the replay opens it at 2026-11-21 00:28:3")


def test_each_record_is_read_again_or_named_as_gone(broker: MemoryBroker) -> None:
    first = stored(broker)[0]
    found = document(first.incident, "--no-recompute")
    assert found["recomputed"] is None
    assert all("372d67df5f2c131a738b025c91f4a3de" in one["value"] for one in found["evidence"])
    for partition in broker.logs:
        broker.first[partition] = 0 if partition.topic.startswith("flinkwatch.") else len(broker.logs[partition])
    assert {one["value"] for one in document(first.incident)["evidence"]} == {None}
    text = run(first.incident).stdout
    assert "no longer retained" in text
    assert text.splitlines()[-1].startswith("reproduced: not possible (Kafka no longer has ")


def test_each_threshold_names_where_it_came_from(broker: MemoryBroker) -> None:
    thresholds = document(stored(broker)[0].incident, "--no-recompute")["rule"]["thresholds"]
    by_key = {one["key"].split(".")[1]: (one["value"], one["origin"]) for one in thresholds}
    assert by_key["confirmation_delay"] == ("3s", "configuration")
    assert by_key["recovered_without"] == ("6m", "override 0")
    assert by_key["gated_hint_max_age"] == ("2m", "default")


def test_too_many_records_are_not_read(broker: MemoryBroker) -> None:
    found = document(stored(broker)[0].incident, "--records", 10)["recomputed"]
    assert found["reproduced"] == "not possible"
    assert "more than the limit of 10" in found["why"]


def test_another_cause_is_not_reproduced(broker: MemoryBroker) -> None:
    forged = msgspec.structs.replace(stored(broker)[0], cause="disk_full")
    broker.logs = type(broker.logs)(list, {p: log for p, log in broker.logs.items() if p.topic != INCIDENTS})
    broker.write(INCIDENTS, msgspec.json.encode(forged), forged.incident.encode(), forged.at)
    assert document(forged.incident)["recomputed"] == {
        "reproduced": "no",
        "why": "the cause is taskmanager_lost in the replay, disk_full in the topic",
    }


def test_compaction_leaves_the_newest_change(broker: MemoryBroker) -> None:
    last = stored(broker)[-1]
    broker.logs = type(broker.logs)(list, {p: log for p, log in broker.logs.items() if p.topic != INCIDENTS})
    broker.write(INCIDENTS, msgspec.json.encode(last), last.incident.encode(), last.at)
    text = run(last.incident).stdout
    assert f"{last.seq - 1} earlier changes were removed by the topic's compaction" in text
    assert "reproduced: yes" in text


def test_an_unknown_incident_is_one_line(broker: MemoryBroker) -> None:
    with pytest.raises(PublishedError, match=r"^flinkwatch.incidents has no incident nosuch; `flinkwatch status"):
        run("nosuch")
