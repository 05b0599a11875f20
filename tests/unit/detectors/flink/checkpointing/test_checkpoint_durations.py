"""Which checkpoints show how long the next one will take, and how the interval is learned."""

import pytest

from detectors.events.event import Sample
from detectors.flink.checkpointing.checkpoint_durations import CheckpointDurations
from detectors.flink.facts import CheckpointCompleted
from detectors.incident import Evidence

MINUTE = 60_000
START = 1_700_000_000_000


def at(time: int) -> Evidence:
    return Evidence("flink.logs", 0, time, START + time, f"line {time}")


class Job:
    """A job whose checkpoints come as lines."""

    def __init__(self) -> None:
        self.own, self.completed = CheckpointDurations(), -1

    def checkpoint(
        self, number: int, time: int, took: int, size: int = 1_000, savepoint: bool = False, restored: bool = False
    ) -> bool:
        if not savepoint:
            self.own.triggered(number, self.completed, START + time)
        self.completed = number
        completed = CheckpointCompleted(number, took, size, seen=True, savepoint=savepoint, restored=restored)
        return self.own.complete(completed, at(time + took), 0.5)

    def minutes(self, count: int, took: int = 1_000, first: int = 1) -> "Job":
        """One a minute."""
        for n in range(first, first + count):
            self.checkpoint(n, n * MINUTE, took)
        return self

    def values(self) -> list[float]:
        return [p.value for p in self.own.history.points(0)]


def test_the_interval_is_the_median_of_three_gaps_at_least() -> None:
    assert Job().minutes(3).own.interval() == 0
    assert Job().minutes(4).own.interval() == MINUTE


@pytest.mark.parametrize(("took", "known"), [(42_000, MINUTE), (42_001, 0)])
def test_a_checkpoint_that_takes_more_than_seven_tenths_of_the_gap_does_not_show_the_interval(
    took: int, known: int
) -> None:
    assert Job().minutes(5, took).own.interval() == known


def test_a_savepoint_shows_neither_duration_nor_interval() -> None:
    job = Job().minutes(2)
    assert job.checkpoint(3, 3 * MINUTE, 30_000, savepoint=True) is False
    assert job.checkpoint(4, 4 * MINUTE, 1_000) is True
    assert job.values() == [1_000.0] * 3
    assert job.own.gaps == [MINUTE]


def test_the_first_checkpoint_after_a_restore_reports_nothing() -> None:
    job = Job().minutes(3)
    job.own.restart()
    assert job.checkpoint(5, 6 * MINUTE, 9_000, restored=True) is False
    assert job.checkpoint(6, 7 * MINUTE, 1_500) is True
    assert job.values() == [1_000.0] * 3 + [1_500.0]
    assert job.own.gaps == [MINUTE] * 2


def test_a_start_from_a_savepoint_forgets_everything_once() -> None:
    job = Job().minutes(3)
    assert job.own.start_fresh(START + 4 * MINUTE) is True
    assert (job.values(), job.own.seen, job.own.records) == ([], 0, [])
    job.minutes(2, first=5)
    assert job.own.start_fresh(START + 4 * MINUTE) is False
    assert job.values() == [1_000.0] * 2


def test_a_full_checkpoint_among_incremental_ones_reports_nothing() -> None:
    for size, counts in ((4_000, True), (4_001, False)):
        job = Job().minutes(5)
        assert job.checkpoint(6, 6 * MINUTE, 9_000, size) is counts
    job = Job().minutes(4)
    assert job.checkpoint(5, 5 * MINUTE, 9_000, 90_000) is True  # what is usual is not known yet


def test_sizes_that_stay_large_are_the_usual_ones_after_five() -> None:
    job = Job().minutes(9)
    counted = [job.checkpoint(n, n * MINUTE, 2_000, 90_000) for n in range(10, 20)]
    assert counted == [False] * 5 + [True] * 5


def test_a_checkpoint_that_takes_no_time_took_a_millisecond() -> None:
    job = Job()
    assert job.checkpoint(1, MINUTE, 0) is True
    assert job.values() == [1.0]
    assert job.own.last == 0


def test_one_record_in_six_is_kept_four_of_them() -> None:
    own = Job().minutes(40).own
    assert [record[2] for record in own.records] == [n * MINUTE + 1_000 for n in (19, 25, 31, 37)]
    assert (own.seen, len(own.sizes), len(own.gaps)) == (40, 9, 16)


class Gauged:
    """A job that is known only from gauges."""

    def __init__(self) -> None:
        self.own = CheckpointDurations()

    def scrape(self, time: int, **values: float) -> list[bool]:
        return [self.own.measure(at(time), Sample(name, {}, value), 0.5) for name, value in values.items()]


def test_a_gauge_is_about_another_checkpoint_when_it_or_the_count_has_changed() -> None:
    job = Gauged()
    assert job.scrape(0, completed_checkpoints=1, last_checkpoint_duration=500) == [False, True]
    assert job.scrape(10_000, completed_checkpoints=1, last_checkpoint_duration=500) == [False, False]
    assert job.scrape(20_000, completed_checkpoints=2, last_checkpoint_duration=500) == [False, True]
    assert job.scrape(30_000, completed_checkpoints=2, last_checkpoint_duration=700) == [False, True]
    assert job.scrape(30_000, completed_checkpoints=3, last_checkpoint_duration=800) == [False, False]  # the same time
    assert job.scrape(40_000, last_checkpoint_duration=0) == [False]
    assert [p.value for p in job.own.history.points(0)] == [500.0, 500.0, 700.0]


def test_gauges_report_nothing_once_lines_do() -> None:
    job = Gauged()
    job.scrape(0, completed_checkpoints=1, last_checkpoint_duration=500)
    job.own.log()
    assert job.own.history.points(0) == []
    assert job.scrape(MINUTE, completed_checkpoints=2, last_checkpoint_duration=900) == [False, False]
    job.own.complete(CheckpointCompleted(1, 300, 1_000, seen=True), at(2 * MINUTE), 0.5)
    assert len(job.own.history.points(0)) == 1


def test_the_full_size_is_the_size_where_there_is_one() -> None:
    job = Gauged()
    job.scrape(0, last_checkpoint_size=70)
    assert job.own.gauge.size == 70
    job.scrape(1_000, last_checkpoint_full_size=900, last_checkpoint_size=80)
    assert job.own.gauge.size == 900
    job.scrape(2_000, last_checkpoint_full_size=-5.0)
    assert job.own.gauge.size == -1


def test_the_interval_of_gauges_is_learned_over_four_checkpoints() -> None:
    job = Gauged()
    for n in range(1, 14):
        job.scrape(n * MINUTE, completed_checkpoints=n, last_checkpoint_duration=500 + n)
    assert job.own.interval() == MINUTE
    assert len(job.own.gaps) == 3
