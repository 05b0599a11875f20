"""Which pending compactions are worth a sentence: those whose lows only grow for long."""

from collections.abc import Callable

import pytest

from detectors.events.event import Sample
from detectors.events.vocabulary.metric_names import detector_name
from detectors.flink.throttling.compaction_backlog import PENDING
from detectors.flink.throttling.write_stalls import STOPPED, WriteStalls

MB = 1e6


def backlog(size: Callable[[int], float], minutes: int, every: int = 30, known: WriteStalls | None = None) -> str:
    """The sentence after so many minutes of samples (MB) of the larger of two states."""
    stalls = known or WriteStalls()
    labels = {"operator_id": "o", "operator_name": "window", "subtask_index": "0"}
    for second in range(0, minutes * 60, every):
        stalls.take(Sample(PENDING, labels, size(second // 60) * MB), second * 1_000)
        stalls.take(Sample(PENDING, labels, 1.0), second * 1_000)
    return stalls.sentence(minutes * 60_000)


@pytest.mark.parametrize("every", [5, 30, 60, 120])
def test_lows_that_only_grow_are_named(every: int) -> None:
    text = backlog(lambda minute: 100 + 40 * minute, 60, every)
    assert text.startswith("; RocksDB falls behind with compactions of window: pending bytes grew from ")


@pytest.mark.parametrize(
    "size",
    [
        lambda minute: 5_000,
        lambda minute: 100 + 500 * (minute % 7),
        lambda minute: 10 + minute,
        lambda minute: 5_000 + 10 * minute,
        lambda minute: 4_000 - 40 * minute,
    ],
    ids=["level", "in bursts", "little", "by little", "shrinks"],
)
def test_other_backlogs_are_healthy(size: Callable[[int], float]) -> None:
    assert backlog(size, 60) == ""


def test_half_an_hour_is_not_long() -> None:
    assert backlog(lambda minute: 100 + 40 * minute, 30) == ""


def test_writes_that_are_stalled_already_are_the_later_stage_of_the_same() -> None:
    stalls = WriteStalls()
    for second in range(0, 3_600, 30):
        stalls.take(Sample(STOPPED, {"operator_id": "o", "operator_name": "window"}, 1.0), second * 1_000)
    assert "has stopped writes" in backlog(lambda minute: 100 + 40 * minute, 60, known=stalls)


def test_the_name_of_the_state_is_part_of_the_metrics_name() -> None:
    name = "flink_taskmanager_job_task_operator_window_contents_rocksdb_estimate_pending_compaction_bytes"
    assert detector_name(name) == (PENDING, "")
