"""The floor of a heap: what a cycle leaves, and when it rises so that garbage cannot explain it."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from detectors.flink.memory.gc_window import collects_old
from detectors.flink.memory.heap_floor import HeapFloor

MB, MINUTE = 1 << 20, 60_000
START = 1_700_000_000_000
LIMIT = 1_000 * MB
UNIT = 65_536


class Heap:
    """A sawtooth: `teeth` cycles of ten samples, five seconds apart, from the floor upwards."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.own = HeapFloor(START, limit=limit)
        self.at = 0

    def tooth(self, low: float, samples: int = 10) -> int:
        """One cycle; how many cycles ended."""
        ended = 0
        for n in range(samples):
            self.at += 5_000
            ended += self.own.take(START + self.at, (low + 20 * n) * MB)
        return ended

    def teeth(self, count: int, floor: Callable[[int], float]) -> "Heap":
        for n in range(count):
            self.tooth(floor(n))
        return self


def test_the_floor_is_the_lowest_sample_of_the_cycle_before_and_the_first_tooth_reports_nothing() -> None:
    heap = Heap()
    assert [heap.tooth(low) for low in (300, 200, 100, 150)] == [0, 0, 1, 1]
    assert [level for _, level in heap.own.series()] == [200 * MB, 100 * MB]
    assert heap.own.floor() == 100 * MB
    assert heap.own.series()[0][0] == START + 55_000
    assert heap.own.now() == START + 200_000
    assert Heap().own.floor() is None


def test_a_fall_of_less_than_three_hundredths_is_no_collection() -> None:
    for share, ended in ((0.971, 0), (0.969, 1)):
        heap = Heap()
        heap.tooth(300)
        heap.tooth(200)
        before = heap.own.used
        assert heap.own.take(START + heap.at + 5_000, before * share) is bool(ended)


def test_collections_nearly_as_often_as_samples_make_a_cycle_of_eight_samples() -> None:
    heap, ended = Heap(), []
    for n in range(40):
        heap.at += 5_000
        ended.append(heap.own.take(START + heap.at, (500 if n % 2 else 300) * MB))
    gaps = [n for n, end in enumerate(ended) if end]
    assert {b - a for a, b in pairwise(gaps)} == {8}


def test_late_and_repeated_samples_are_dropped() -> None:
    heap = Heap().teeth(3, lambda n: 300)
    before = heap.own.series(), heap.own.low
    assert heap.own.take(START + heap.at, 1.0) is False
    assert heap.own.take(START + heap.at - 1, 1.0) is False
    assert (heap.own.series(), heap.own.low) == before


def test_a_long_life_is_kept_in_forty_eight_points_its_older_half_by_the_lower_of_two() -> None:
    heap = Heap().teeth(62, lambda n: 100 + (n % 2) * 50)
    series = heap.own.series()
    assert len(series) == 48
    assert {level for _, level in series[:12]} == {100.0 * MB}
    assert [t for t, _ in series] == sorted({t for t, _ in series})


def test_the_older_half_of_a_long_life_covers_all_of_it_evenly() -> None:
    """A leak over days is seen although there are hundreds of collections a day."""
    heap = Heap().teeth(2_000, lambda n: 100 + n / 4)
    series = heap.own.series()
    older = [t for t, _ in series[:24]]
    spans = [b - a for a, b in pairwise(older)]
    assert len(series) == 48
    assert older[0] - START < 0.1 * heap.at
    assert older[-1] - START > 0.9 * heap.at
    assert max(spans) < 0.15 * heap.at
    rise = heap.own.rise(0, 6, 0.01, 0.05)
    assert rise is not None
    assert rise.slope.low <= 0.25 * MB / 50_000 <= rise.slope.high


def test_a_heap_that_has_filled_up_long_ago_does_not_rise() -> None:
    heap = Heap().teeth(1_000, lambda n: 100 + min(n, 300))
    assert heap.own.rise(0, 6, 0.01, 0.05) is None


class G1Heap(Heap):
    """A heap of G1, whose counter of old collections stays at 0."""

    def __init__(self, each: int = 1) -> None:
        super().__init__()
        self.own.g1, self.each, self.count = True, each, 0

    def tooth(self, low: float, samples: int = 10) -> int:
        self.own.counted(0, False, START + self.at + 1, self.count)
        self.own.counted(1, True, START + self.at + 1, 0)
        self.count += self.each
        return super().tooth(low, samples)

    def proven(self) -> bool:
        rise = self.own.rise(0, 6, 0.01, 0.05)
        return rise is not None and rise.proven


def test_a_dozen_lows_that_rise_prove_it_where_g1_counts_no_old_collection() -> None:
    heap = G1Heap()
    seen = [heap.teeth(1, lambda _, n=n: 150 + 20 * n).proven() for n in range(16)]  # type: ignore[misc]
    assert seen[:13] == [False] * 13
    assert seen[-1]
    assert heap.own.used < 500 * MB + 200 * MB
    assert not Heap().teeth(16, lambda n: 150 + 20 * n).own.rise(0, 6, 0.01, 0.05).proven  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("heap", "floor"),
    [
        (G1Heap(each=40), lambda n: 100 + 8 * n),
        (G1Heap(), lambda n: 100 + 1.5 * n),
        (G1Heap(), lambda n: 100 + 250 * (1 - 0.9**n)),
        (G1Heap(), lambda n: 100 + 250 * (1 - 0.99**n)),
        (G1Heap(), lambda n: 100 + 80 * (n % 4) / 4),
    ],
    ids=["many collections", "slowly", "levels off", "levels off late", "up and down"],
)
def test_what_may_be_old_garbage_or_a_warm_up_is_not_proven_below_the_level_at_which_g1_marks(
    heap: G1Heap, floor: Callable[[int], float]
) -> None:
    for n in range(60):
        heap.tooth(floor(n))
        assert not heap.proven() or floor(n) >= 500, n


def test_a_rise_beyond_the_level_at_which_g1_marks_is_proven_however_many_collections_it_took() -> None:
    assert G1Heap(each=40).teeth(70, lambda n: 100 + 8 * n).proven()
    assert not G1Heap(each=40).teeth(40, lambda n: 100 + 8 * n).proven()


def test_what_is_forgotten_leaves_the_last_floor() -> None:
    heap = Heap().teeth(6, lambda n: 100 + 10 * n)
    last = heap.own.series()[-1]
    heap.own.forget()
    assert heap.own.series() == [last]
    heap.teeth(3, lambda n: 300)
    assert len(heap.own.series()) == 1
    empty = Heap()
    empty.own.forget()
    assert (empty.own.floor(), empty.own.series()) == (None, [])


def rising(n: int) -> float:
    return 100 + 8 * n


def test_a_floor_that_rises_over_its_cycles_is_found_with_its_line_and_when_it_is_full() -> None:
    found = Heap().teeth(32, rising).own.rise(0, 20, 0.01, 0.05)
    assert found is not None
    assert found.cycles == 30
    assert found.slope.slope * 50_000 == pytest.approx(8 * MB, rel=0.02)
    assert found.full.at == pytest.approx(START + (1_000 - 100) / 8 * 50_000, abs=2 * MINUTE)
    assert (found.first, found.last) == (pytest.approx(144 * MB, rel=0.1), pytest.approx(304 * MB, rel=0.1))
    assert found.since == START + 55_000
    assert not found.proven


@pytest.mark.parametrize(
    ("why", "heap", "asked"),
    [
        ("too few cycles", Heap().teeth(21, rising), (0, 20, 0.01, 0.05)),
        ("still warming up", Heap().teeth(32, rising), (20 * MINUTE, 20, 0.01, 0.05)),
        ("no limit", Heap(limit=0).teeth(32, rising), (0, 20, 0.01, 0.05)),
        ("too little of the limit", Heap().teeth(32, rising), (0, 20, 0.01, 0.30)),
        ("flat", Heap().teeth(32, lambda n: 100 + n % 3), (0, 20, 0.01, 0.0)),
        ("levelled off", Heap().teeth(42, lambda n: 100 + 20 * min(n, 12)), (0, 20, 0.01, 0.05)),
        ("falls", Heap().teeth(32, lambda n: 500 - 8 * n), (0, 20, 0.01, 0.0)),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_it_is_no_rise(why: str, heap: Heap, asked: tuple[int, int, float, float]) -> None:
    assert heap.own.rise(*asked) is None


def test_memory_that_outlives_an_old_collection_or_stands_where_each_would_have_started_one_is_kept() -> None:
    heap = Heap().teeth(24, rising)
    heap.own.counted(1, True, START + heap.at, 1)
    heap.own.counted(1, True, START + heap.at + 1, 2)
    assert heap.own.after_old == 0
    heap.teeth(8, lambda n: rising(24 + n))
    found = heap.own.rise(0, 20, 0.01, 0.05)
    assert found is not None
    assert found.proven
    assert heap.own.after_old == rising(24) * MB
    full = Heap().teeth(32, lambda n: 300 + 16 * n).own.rise(0, 20, 0.01, 0.05)
    assert full is not None
    assert not full.proven
    full = Heap().teeth(42, lambda n: 300 + 16 * n).own.rise(0, 20, 0.01, 0.05)
    assert full is not None
    assert full.proven


def test_only_more_collections_of_the_old_generation_than_before_count_and_fewer_are_another_process() -> None:
    own = Heap().teeth(3, rising).own
    assert own.counted(1, True, START + 10, 5) is False
    assert own.after_old == -1
    assert own.counted(1, True, START + 20, 5) is False
    assert own.counted(2, False, START + 20, 9) is False
    assert own.counted(2, False, START + 30, 10) is False
    assert own.after_old == -1
    assert own.counted(1, True, START + 20, 6) is False  # late: dropped
    assert own.after_old == -1
    assert own.counted(1, True, START + 30, 6) is False
    assert own.after_old == 0
    assert own.counted(1, True, START + 40, 1) is True


@pytest.mark.parametrize(
    ("collector", "old"),
    [
        *(("G1_Old_Generation", True), ("PS_MarkSweep", True), ("MarkSweepCompact", True), ("ZGC_Cycles", True)),
        *(("G1_Young_Generation", False), ("PS_Scavenge", False), ("Copy", False), ("G1_Concurrent_GC", False)),
    ],
)
def test_which_collectors_collect_the_old_generation(collector: str, old: bool) -> None:
    assert collects_old(collector) is old
