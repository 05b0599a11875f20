"""The configuration changes while the job runs: at once, whole, remembered, and the same again in a replay."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from detectors.events.event import Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.incident import Transition
from detectors.settings.live import LiveSettings, publish, settings_hash
from streaming.job.rows import bucket_of
from streaming.recordings.redate import redated
from tests.e2e.harness import Installation
from tests.e2e.reloading import Mounted, batches, changes, committed, flinkwatch, metrics
from tests.e2e.test_job import essence, recorded, replayed
from tests.embedded.job_process import JobProcess
from tests.recorded import replay
from tests.reliability import killed_job
from tests.reliability.job_chain import of_another, portions

pytestmark = pytest.mark.e2e

Make = Callable[..., Installation]

CREEP = "checkpoint_duration_creep"
# Growth of a thousandfold: no job creeps as far.
DEAF = {"detectors": {CREEP: {"growth": 1000}}}
BAD = {"detectors": {CREEP: {"growth": "much"}}}
_PLAYED_MS = 300_000


def of_creep(transitions: list[Transition]) -> list[Transition]:
    return [t for t in transitions if t.cause == CREEP]


def with_changes(here: Installation, records: list[Record]) -> list[Transition]:
    """What a replay says of records among which are changes of the configuration."""
    reader = Reader(Identity(), frozenset({here.metrics}))
    return list(
        replay(records, reader, publish(LiveSettings(), 0, "test"), config_topic=f"{here.prefix}.config", after_ms=0)
    )


def test_a_threshold_changed_during_a_creep_is_in_force_two_triggers_later(installation: Make) -> None:
    """F13: the incident opens only after the change and names its hash, a bad file in between changes nothing, and the
    same records with the same changes say the same in a replay. Then it is silenced, and no longer.
    """
    here = installation()
    here.create_inputs()
    file = Mounted(here, DEAF)
    records = list(redated(recorded("checkpoint-creep"), int(time.time() * 1000) - _PLAYED_MS))
    opens = of_creep(replayed(records, "flink.metrics"))[0].at
    cut = next(i for i, r in enumerate(records) if r.timestamp > opens)
    deaf, usual = settings_hash(LiveSettings.model_validate(DEAF)), settings_hash(LiveSettings())
    here.job.start()
    before = here.send(records[:cut])
    here.wait_for(lambda: committed(here, before))
    # Alone in its batch, it brings the clock of the stream to where the records are, as live.
    before += here.send([Record(f"{here.prefix}.heartbeat", 0, 0, before[-1].timestamp, None, b"")])
    here.wait_for(lambda: committed(here, before))
    assert of_creep(here.transitions()) == []
    assert (metrics(here)["last_reload_successful"], metrics(here)["hash"]) == ("1.0", deaf)

    file.swap(BAD)
    here.wait_for(lambda: metrics(here)["last_reload_successful"] == "0.0")
    file.swap(DEAF)
    here.wait_for(lambda: metrics(here)["last_reload_successful"] == "1.0")
    assert metrics(here)["hash"] == deaf
    assert len(changes(here)) == 1
    file.swap({})
    here.wait_for(lambda: metrics(here)["hash"] == usual)
    first, change = changes(here)
    here.wait_for(lambda: committed(here, [change]))
    later = [batch for batch in batches(here) if batch.began > change.timestamp]
    assert any(batch.has(change) for batch in later[:2]) or batches(here)[-1 - len(later)].has(change)

    after = here.send(records[cut:])
    here.wait_for(lambda: bool(of_creep(here.transitions())) and committed(here, after))
    said = here.transitions()
    assert {t.config for t in of_creep(said)} == {usual}
    expected = with_changes(here, [first, *before, change, *after])
    assert essence(said) == essence(expected)
    assert [t.config for t in said] == [t.config for t in expected]
    assert expected == with_changes(here, [first, *before, change, *after])

    added = flinkwatch(here, "silence", "add", "--job", "billing-*", "--for", "2h", "--comment", "deployment", "--json")
    silence = json.loads(added)["id"]
    here.wait_for(lambda: [t.silence.id for t in of_creep(here.transitions())[-1:] if t.silence] == [silence])
    assert "active" in flinkwatch(here, "silence", "list")
    flinkwatch(here, "silence", "expire", silence)
    here.wait_for(lambda: committed(here, changes(here)))
    here.heartbeat(int(time.time() * 1000))
    here.wait_for(lambda: of_creep(here.transitions())[-1].silence is None)
    last = of_creep(here.transitions())[-1]
    assert last.silenced_before is not None
    assert last.silenced_before.id == silence
    assert here.job.terminate() == 0
    log = [json.loads(line) for line in here.job.log.read_text().splitlines() if line.startswith("{")]
    refused = [line for line in log if "is not valid" in line["event"]]
    assert [line["level"] for line in refused] == ["warning"]
    assert "detectors.checkpoint_duration_creep.growth: must be a number" in refused[0]["error"]
    logged = [line["changes"] for line in log if line["event"] == "new configuration is in force"]
    assert logged == [[f"detectors.{CREEP}.growth: 1000.0 → 0.5"]]


@pytest.mark.slow
def test_kill_9_during_a_reload_leaves_one_configuration_in_every_bucket(installation: Make, tmp_path: Path) -> None:
    """F13, F1: killed when the first state of the batch that brings the change was put. What clusters of both buckets
    are told after the restart is decided under the new one, which stays in force although the file is the old one.
    """
    here = installation()
    here.create_inputs()
    armed = tmp_path / "armed"
    here.job = JobProcess(
        here.folder,
        here.configuration,
        "--no-deliver",
        environment={killed_job.ARMED: str(armed)},
        module="tests.reliability.killed_job",
    )
    names = [next(n for n in (f"billing-{i}" for i in range(99)) if bucket_of(n, 2) == bucket) for bucket in (0, 1)]
    first, second, *_ = portions()
    here.job.start()
    here.send(of_another(r, name, 0) for r in first for name in names)
    here.wait_for(lambda: len(here.transitions()) == 2)
    assert {t.config for t in here.transitions()} == {settings_hash(LiveSettings())}

    file = tmp_path / "other.yaml"
    sections = {
        "detectors": {"restart_loop": {"count": 9}},
        "overrides": [{"cluster": "nobody", "detectors": {CREEP: {"enabled": False}}}],
    }
    file.write_text(yaml.safe_dump(sections))
    other = settings_hash(LiveSettings.model_validate(sections))
    armed.write_text(json.dumps({"point": "in the state update", "signal": signal.SIGKILL, "job": here.job.pid}))
    assert other in flinkwatch(here, "config", "apply", str(file))
    assert here.job.wait(60) == -signal.SIGKILL
    assert not armed.exists()

    here.job.start()
    here.wait_for(lambda: committed(here, changes(here)))
    here.send(of_another(r, name, 0) for r in second for name in names)
    here.wait_for(lambda: len(here.transitions()) >= 4)
    assert {(t.cluster, t.config) for t in here.transitions() if t.seq > 1} == {(name, other) for name in names}
    here.wait_for(lambda: metrics(here)["hash"] == other)
    commands(here, file, other)
    assert here.job.terminate() == 0


def commands(here: Installation, file: Path, other: str) -> None:
    """What the commands say of it, and a way back."""
    shown = json.loads(flinkwatch(here, "config", "show", "--json"))
    assert (shown["hash"], shown["origin"]) == (other, "apply")
    for_one = json.loads(flinkwatch(here, "config", "show", "--for", "nobody/orders", "--json"))["settings"]
    assert [(s["key"], s["value"], s["from"]) for s in for_one] == [
        (f"{CREEP}.enabled", "false", "overrides[0]"),
        ("restart_loop.count", "9", "detectors"),
    ]
    file.write_text("streaming: {trigger: 2s}\n")
    assert f"{settings_hash(LiveSettings())} would be published" in flinkwatch(
        here, "config", "apply", str(file), "--dry-run"
    )
    assert settings_hash(LiveSettings()) in flinkwatch(here, "config", "rollback")
    lines = [json.loads(line) for line in flinkwatch(here, "config", "history", "--json").splitlines()]
    assert [line["origin"] for line in lines] == ["file", "apply", "rollback"]
