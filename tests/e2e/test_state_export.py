"""State that is exported and imported into other buckets continues as if nothing had happened."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Installation
from tests.e2e.test_job import recorded, replayed
from tests.embedded.job_process import JobProcess

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def state(*arguments: object) -> str:
    """The output of `flinkwatch state`, which must succeed."""
    command = [sys.executable, "-m", "streaming", "state", *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_state_exported_in_the_middle_of_an_incident_continues_in_other_buckets(
    installation: Callable[..., Installation], tmp_path: Path
) -> None:
    """Killed, exported, imported with other buckets and partitions: the incident continues with its next number."""
    here = installation()
    here.create_inputs()
    records = recorded("late-barrier-acks")
    middle = next(i for i, r in enumerate(records) if b"Checkpoint 7 of job" in (r.value or b"")) + 1
    begun = middle // 3
    stored = here.send(records[:begun])
    here.job.start()
    old = Path(here.configuration["streaming"]["checkpoint"])
    here.wait_for((old / "commits" / "0").exists)
    stored += here.send(records[begun:middle])
    # They are in Kafka before their batch is finished, so the import has to repeat that batch.
    here.wait_for(lambda: len(here.transitions()) >= 1)
    here.job.kill()
    config = tmp_path / "moved" / "flinkwatch.yaml"
    config.parent.mkdir()
    streaming = {**here.configuration["streaming"], "buckets": 5, "shuffle_partitions": 3}
    moved = {**here.configuration, "streaming": {**streaming, "checkpoint": str(tmp_path / "moved" / "checkpoint")}}
    config.write_text(yaml.safe_dump(moved))
    exported = tmp_path / "state.jsonl"
    state("export", "--config", config, "--checkpoint", old, "--out", exported)
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert (lines[0]["buckets"], [one.get("cluster", "") for one in lines[1:]]) == (2, ["", "", "clickstream"])
    assert lines[-1]["state"]["detectors"]
    state("import", exported, "--config", config)
    stored += here.send(records[middle:])
    job = JobProcess(config.parent, moved, "--no-deliver")
    expected = replayed(stored, here.metrics)
    job.start()
    try:
        job.await_condition(lambda: len(here.transitions()) >= len(expected), 600)
        assert job.terminate() == 0
    finally:
        job.kill()
    found = here.transitions()
    assert len({t.incident for t in found}) == 1
    assert [t.seq for t in found] == list(range(1, len(found) + 1))
    assert (found[0].incident, found[-1].cause) == (expected[0].incident, "late_barrier_acks")
    assert {e.offset for t in found for e in t.evidence} == {e.offset for t in expected for e in t.evidence}
