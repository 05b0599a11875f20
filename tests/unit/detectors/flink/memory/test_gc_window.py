"""The share of the last minute spent in collections, and what they leave, from counters that come in any way."""

import pytest

from detectors.flink.memory.gc_window import GcWindow

MB = 1 << 20
START = 1_700_000_000_000
YOUNG, OLD, CONCURRENT = "G1_Young_Generation", "G1_Old_Generation", "G1_Concurrent_GC"
NUMBERS = {YOUNG: 0, OLD: 1, CONCURRENT: 2, "PS_MarkSweep": 3}


class Process:
    """A TaskManager that is scraped; counters are those of its life."""

    def __init__(self) -> None:
        self.own = GcWindow()

    def scrape(self, at: int, used: int = 500, limit: int = 1_000, **counters: tuple[int, int]) -> "Process":
        """`counters` by collector: ms and collections."""
        time = START + at
        for name, (spent, count) in counters.items():
            self.own.collected("gc_time", name, NUMBERS[name], spent, time, time + 50)
            self.own.collected("gc_count", name, NUMBERS[name], count, time, time + 50)
        self.own.take("heap_used", used * MB, time, time + 50)
        self.own.take("heap_max", limit * MB, time, time + 50)
        return self

    def busy(self, seconds: int, each: int = 5, spent: int = 1_000, **more: int) -> "Process":
        """`spent` ms and one collection every `each` seconds."""
        for n, at in enumerate(range(0, seconds + 1, each)):
            self.scrape(at * 1_000, **more, **{YOUNG: (n * spent, n)})
        return self


def test_the_share_is_what_was_spent_of_the_time_that_passed() -> None:
    assert Process().busy(60).own.share(60_000) == pytest.approx(0.2)
    assert Process().busy(60).own.share(20_000) == pytest.approx(0.2)
    assert Process().busy(60, each=15, spent=7_500).own.share(60_000) == pytest.approx(0.5)


def test_while_less_is_known_than_asked_for_nothing_is_reported() -> None:
    assert Process().busy(55).own.share(60_000) is None
    assert GcWindow().share(1_000) is None
    assert GcWindow().left(1_000) == 0.0


def test_the_first_counter_of_a_process_is_of_all_its_life() -> None:
    process = Process().scrape(0, **{YOUNG: (900_000, 5_000)}).scrape(10_000, **{YOUNG: (901_000, 5_001)})
    assert process.own.share(10_000) == pytest.approx(0.1)


def test_a_collector_that_is_new_makes_the_minute_begin_again() -> None:
    process = Process().busy(60)
    process.scrape(65_000, **{YOUNG: (13_000, 13), OLD: (70_000, 9)})
    assert process.own.share(10_000) is None


def test_a_counter_that_runs_back_is_of_another_process() -> None:
    process = Process().busy(60).scrape(65_000, **{YOUNG: (10, 0)})
    assert process.own.share(60_000) is None
    assert process.scrape(75_000, **{YOUNG: (1_010, 1)}).own.share(10_000) == pytest.approx(0.1)


def test_the_time_of_concurrent_work_does_not_count_and_its_collections_are_not_old_ones() -> None:
    process = Process().scrape(0, **{CONCURRENT: (0, 0)}).scrape(10_000, **{CONCURRENT: (9_000, 4)})
    assert process.own.share(10_000) == 0.0
    assert process.own.old_collections(10_000) == 0
    assert process.own.left(10_000, 1) == pytest.approx(0.5)


@pytest.mark.parametrize(("collector", "old"), [(OLD, 3), ("PS_MarkSweep", 3), (YOUNG, 0)])
def test_collections_of_the_old_generation_are_counted(collector: str, old: int) -> None:
    process = Process().scrape(0, **{collector: (0, 7)}).scrape(10_000, **{collector: (100, 10)})
    assert process.own.old_collections(10_000) == old
    assert process.own.old_collections(9_999) == 0


def test_few_samples_of_a_sawtooth_leave_nothing_known() -> None:
    process = Process().scrape(0, used=950, **{YOUNG: (0, 0)})
    for n in range(1, 13):
        assert process.own.left(20_000) == 0.0
        process.scrape(10_000 * n, used=950, **{YOUNG: (10 * n, n)})
    assert process.own.left(20_000) == pytest.approx(0.95)
    assert process.own.left(20_000, 4) == pytest.approx(0.95)


@pytest.mark.parametrize("every", [5_000, 60_000, 120_000])
def test_it_is_calm_after_three_samples_and_at_once_if_it_is_not_scraped_any_more(every: int) -> None:
    process = Process()
    for n in range(6):
        process.scrape(every * n, used=500, **{YOUNG: (0, n)})
        sign, now = process.own.time - 2 * every, process.own.time
    assert not process.own.calm_since(sign, now, 0)
    assert process.own.calm_since(sign - every, now, 0)
    assert not process.own.calm_since(sign - every, now, 3 * every + 1)
    assert process.own.calm_since(sign, now + 3 * every + 1, 0)


def test_what_is_left_is_the_least_share_of_the_heap_in_the_window_and_needs_two_collections() -> None:
    process = Process().scrape(0, used=900, **{YOUNG: (0, 0)}).scrape(10_000, used=700, **{YOUNG: (10, 1)})
    assert process.own.left(10_000, 1) == 0.0
    process.scrape(20_000, used=800, **{YOUNG: (20, 2)})
    assert process.own.left(20_000, 1) == pytest.approx(0.7)
    assert process.own.left(10_000, 1) == 0.0
    process.scrape(30_000, used=900, **{YOUNG: (30, 5)})
    assert process.own.left(10_000, 1) == pytest.approx(0.8)


def test_without_a_limit_or_a_sample_of_the_heap_nothing_is_left() -> None:
    process = Process().busy(20, limit=0)
    assert process.own.left(20_000, 1) == 0.0
    bare = GcWindow()
    for n in range(5):
        bare.collected("gc_count", YOUNG, 0, n, START + n * 5_000, START)
    assert (bare.used(), bare.left(10_000), bare.points()) == (0, 0.0, [])


def test_the_heap_in_use_is_the_newest_and_its_points_have_their_times() -> None:
    process = Process().scrape(0, used=300).scrape(10_000, used=400).scrape(20_000, used=500)
    assert process.own.used() == 500 * MB
    assert process.own.points() == [(START + at, used * MB) for at, used in ((0, 300), (10_000, 400), (20_000, 500))]
    assert process.own.interval == 10_000
    assert process.own.limit == 1_000 * MB


def test_late_samples_are_dropped_and_the_clock_does_not_run_back() -> None:
    process = Process().busy(20)
    before = process.own.points()
    process.own.take("heap_used", 7 * MB, START + 19_999, START)
    process.own.collected("gc_time", YOUNG, 0, 10**9, START + 19_999, START)
    assert process.own.points() == before
    assert process.own.at == START + 20_050


def test_scrapes_every_second_are_kept_as_entries_of_five_seconds_and_a_minute_at_most() -> None:
    process = Process().busy(120, each=1, spent=100)
    assert process.own.share(60_000) == pytest.approx(0.1)
    assert process.own.share(20_000) == pytest.approx(0.1)
    assert len(process.own.entries) == 14
    assert process.own.share(71_000) is None
    assert all(e.ms == 5_000 for e in process.own.entries[1:-1])


def test_more_than_eight_collectors_are_not_kept() -> None:
    own = GcWindow()
    for number in range(12):
        own.collected("gc_time", YOUNG, number, 5, START, START)
    assert len(own.spent) == 8
