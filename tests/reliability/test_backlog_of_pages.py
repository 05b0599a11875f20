"""A backlog that is too large for the memory at once: it is read in smaller pieces, and nothing is lost."""

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaProducer

from detectors.incident import Transition
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.e2e.test_job import recorded, replayed
from tests.reliability.processes import jvm_of
from tests.reliability.test_processes import lines, restarts
from tests.reliability.test_topics import ends

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

_WITHIN_S = 900.0
# The least that Spark starts with is 450 MB.
_HEAP = "512m"
_PAGES, _SAMPLES, _HOSTILE = 1_200, 600, 60
_SERIES = b'flink_taskmanager_job_task_backPressuredTimeMsPerSecond{job_id="%s",task_name="map",subtask_index="%d"} 5'
PAGE = b"\n".join(_SERIES % (b"ab" * 16, n) for n in range(_SAMPLES))
"""A scrape of 60 kB, all of which detectors use."""


def fill(here: Installation) -> int:
    """The pages, then hostile records, in each of two partitions; how many records that is."""
    producer = KafkaProducer(bootstrap_servers=here.bootstrap, compression_type="gzip", max_request_size=4_000_000)
    begins = int(time.time() * 1000) - _PAGES * 100
    for number in range(_PAGES):
        for partition in range(2):
            at, headers = begins + 100 * number, [("cluster", b"prod")]
            producer.send(here.metrics, value=PAGE, headers=headers, partition=partition, timestamp_ms=at)
    for _ in range(_HOSTILE):
        for partition in range(2):
            producer.send(here.logs, value=b"\0" * 300_000, partition=partition, timestamp_ms=begins)
    producer.flush(timeout=600)
    producer.close()
    here.heartbeat(begins + _PAGES * 100)
    return 2 * (_PAGES + _HOSTILE)


def read(here: Installation) -> float:
    return sum(value for key, value in here.readings().items() if key.startswith("records_read_total"))


def test_a_backlog_of_scrape_pages_and_hostile_records_fits_into_a_small_heap(
    installation: Callable[..., Installation],
) -> None:
    """One batch with 150 MB of events, in rows of a few MB: Spark's JVM needs no restart."""
    here = installation(driver_memory=_HEAP)
    here.create_inputs()
    sent = fill(here)
    here.job.start()
    here.wait_for(lambda: len(here.rejected()) >= 2 * _HOSTILE and read(here) >= sent, _WITHIN_S)
    assert restarts(here) == 0
    assert read(here) == sent
    assert len(here.rejected()) == 2 * _HOSTILE
    assert here.job.terminate() == 0


def ended(here: Installation) -> bool:
    """Whether all that was sent has been read: the newest finished batch ends there."""
    commits = [int(file.name) for file in (here.folder / "checkpoint" / "commits").glob("[0-9]*")]
    if not commits:
        return False
    plan = here.folder / "checkpoint" / "offsets" / str(max(commits))
    read_to = json.loads(plan.read_text().splitlines()[-1])
    return all(read_to[t] == {str(p): end for p, end in ends(here, t).items()} for t in (here.logs, here.metrics))


def said(here: Installation) -> list[dict[str, Any]]:
    return [x for x in lines(here) if x["event"] == "batches are smaller because memory was probably short"]


def ended_processes(here: Installation) -> int:
    file = here.folder / "checkpoint" / "flinkwatch-starts.json"
    return int(json.loads(file.read_text())["ended"]) if file.exists() else 0


def found(transitions: list[Transition]) -> dict[str, tuple[str, str]]:
    """The last change and the cause of every incident."""
    return {t.incident: (t.transition, t.cause) for t in transitions}


def test_a_batch_whose_jvm_was_killed_twice_is_read_in_smaller_ones(installation: Callable[..., Installation]) -> None:
    """As the kernel does when memory is short. The incidents are those of a replay."""
    records = recorded("late-barrier-acks")
    here = installation(max_offsets_per_trigger=len(records))
    here.create_inputs()
    stored = here.send(records)
    expected = replayed(stored, here.metrics)
    here.job.start()
    checkpoint = here.folder / "checkpoint"
    here.wait_for((checkpoint / "offsets" / "0").exists, _WITHIN_S)
    os.kill(jvm_of(here.job.pid), signal.SIGKILL)
    here.wait_for(lambda: bool(said(here)), _WITHIN_S)
    os.kill(jvm_of(here.job.pid), signal.SIGKILL)
    assert not (checkpoint / "commits" / "0").exists()
    here.wait_for(lambda: ended(here), _WITHIN_S)
    assert restarts(here) >= 2
    assert here.job.terminate() == 0
    assert found(here.transitions()) == found(expected)
    first, *_, last = said(here)
    assert (first["max_offsets"], "shortened_from" in first) == (len(records) // 4, False)
    assert last["max_offsets"] <= len(records) // 16
    assert last["shortened_from"] == pytest.approx(len(records), abs=5)


def test_a_batch_during_which_two_jobs_were_killed_is_read_in_smaller_ones(
    installation: Callable[..., Installation],
) -> None:
    """As the kernel does with a whole container, which takes along what its process knew."""
    records = recorded("late-barrier-acks")
    here = installation(max_offsets_per_trigger=len(records))
    here.create_inputs()
    stored = here.send(records)
    expected = replayed(stored, here.metrics)
    checkpoint = here.folder / "checkpoint"
    here.job.start()
    here.wait_for((checkpoint / "offsets" / "0").exists, _WITHIN_S)
    here.job.kill()
    here.job.start()
    here.wait_for(lambda: ended_processes(here) == 1, _WITHIN_S)
    here.job.kill()
    assert not (checkpoint / "commits" / "0").exists()
    here.job.start()
    here.wait_for(lambda: ended(here), _WITHIN_S)
    assert here.job.terminate() == 0
    assert found(here.transitions()) == found(expected)
    smaller = said(here)[-1]
    assert smaller["max_offsets"] == len(records) // 4
    assert smaller["shortened_from"] == pytest.approx(len(records), abs=5)
