"""Which stalled writes of RocksDB are worth a sentence: those that last, in three samples, and are still measured."""

from collections.abc import Iterable

import pytest

from detectors.events.event import Sample
from detectors.events.vocabulary.metric_names import detector_name
from detectors.flink.throttling.write_stalls import DELAYED, STOPPED, WriteStalls

SCOPE = "flink_taskmanager_job_task_operator_"


def stalls(
    values: Iterable[float],
    every: int = 15_000,
    name: str = DELAYED,
    subtask: str = "0",
    known: WriteStalls | None = None,
) -> WriteStalls:
    """One sample of each of two states of a subtask at a time."""
    found = known or WriteStalls()
    for number, value in enumerate(values):
        labels = {"operator_id": "o", "operator_name": "window", "subtask_index": subtask}
        for _ in range(2):
            found.take(Sample(name, labels, value), number * every)
    return found


def test_writes_that_are_never_or_hardly_stalled_are_healthy() -> None:
    assert stalls([0.0] * 40).sentence(600_000) == ""
    assert stalls([0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0]).sentence(150_000) == ""


@pytest.mark.parametrize(("every", "samples"), [(5_000, 7), (15_000, 3), (30_000, 3), (60_000, 3)])
def test_three_samples_over_half_a_minute_are_worth_a_sentence(every: int, samples: int) -> None:
    assert stalls([1e6] * (samples - 1), every).sentence(every * (samples - 2)) == ""
    assert "RocksDB has slowed down writes of window" in stalls([1e6] * samples, every).sentence(every * (samples - 1))


def test_a_single_good_sample_ends_nothing_and_three_do() -> None:
    values = [1.0] * 6 + [0.0] * 2
    assert stalls(values).sentence(105_000)
    assert stalls([*values, 0.0]).sentence(120_000) == ""


def test_a_process_that_is_no_longer_measured_is_not_named() -> None:
    assert stalls([1.0] * 6).sentence(75_000 + 180_001) == ""


def test_stopped_writes_are_worse_than_slow_ones_and_subtasks_are_counted() -> None:
    both = stalls([1.0] * 6, name=STOPPED, known=stalls([1.0] * 6))
    assert "has stopped writes of window for" in both.sentence(75_000)
    assert "window (2 subtasks)" in stalls([1.0] * 6, subtask="1", known=stalls([1.0] * 6)).sentence(75_000)


def test_the_same_samples_again_and_late_ones_change_nothing() -> None:
    found = stalls([1.0] * 6)
    before = found.sentence(75_000)
    assert stalls([0.0] * 5, known=found).sentence(75_000) == before


def test_late_operators_make_room_for_new_ones() -> None:
    found = WriteStalls()
    for number in range(1_000):
        found.take(Sample(STOPPED, {"subtask_index": str(number)}, 1.0), number)
    assert len(found.subtasks) == 256


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("window_contents_rocksdb_is_write_stopped", STOPPED),
        ("column_family_rocksdb_actual_delayed_write_rate", DELAYED),
        ("window_contents_forst_is_write_stopped", STOPPED),
        ("window_contents_rocksdb_block_cache_usage", ""),
    ],
)
def test_the_name_of_the_state_is_part_of_the_metrics_name(name: str, known: str) -> None:
    assert detector_name(SCOPE + name) == (known, "")
