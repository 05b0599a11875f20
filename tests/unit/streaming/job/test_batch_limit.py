"""How large batches may be after memory was short."""

from streaming.job.batch_limit import BatchLimit, is_full


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_lack_of_memory_leaves_a_quarter_down_to_one() -> None:
    limit = BatchLimit(500_000, Clock())
    assert (limit.offsets, limit.is_lowered) == (500_000, False)
    found = []
    for _ in range(11):
        limit.lower()
        found.append(limit.offsets)
    assert found == [125_000, 31_250, 7_812, 1_953, 488, 122, 30, 7, 1, 1, 1]
    assert limit.is_lowered


def test_full_batches_double_it_every_ten_minutes_up_to_the_setting() -> None:
    clock = Clock()
    limit = BatchLimit(100_000, clock)
    limit.lower()
    found = []
    for clock.now in range(0, 3_000, 60):
        if limit.rises(25_000 if limit.offsets == 25_000 else 95_000):
            found.append((clock.now, limit.offsets))
    assert found == [(600, 50_000), (1_200, 100_000)]
    assert not limit.is_lowered


def test_a_batch_that_was_planned_before_the_limit_rose_is_full_too() -> None:
    """A query that is stopped has planned its next batch. Records after it are no late ones, but a backlog."""
    clock = Clock()
    limit = BatchLimit(100_000, clock)
    assert limit.full_at == 100_000
    limit.lower()
    assert limit.full_at == 25_000
    clock.now = 600
    assert limit.rises(25_000)
    assert (limit.full_at, limit.offsets) == (25_000, 50_000)


def test_batches_that_are_not_full_leave_it_as_it_is() -> None:
    """A query that starts again costs seconds, and a limit that is not reached costs nothing."""
    clock = Clock()
    limit = BatchLimit(100_000, clock)
    limit.lower()
    clock.now = 86_400
    assert not limit.rises(22_000)
    assert limit.rises(22_500)


def test_a_batch_fails_again_if_none_has_finished_in_between() -> None:
    limit = BatchLimit(100_000, Clock())
    limit.lower()
    assert not limit.is_failing_again
    limit.rises(5)
    limit.lower()
    assert not limit.is_failing_again
    limit.lower()
    assert limit.is_failing_again
    limit.rises(5)
    assert not limit.is_failing_again


def test_another_lack_of_memory_starts_the_ten_minutes_again() -> None:
    clock = Clock()
    limit = BatchLimit(100_000, clock)
    limit.lower()
    clock.now = 599
    limit.lower()
    clock.now = 1_198
    assert not limit.rises(100_000)
    clock.now = 1_199
    assert limit.rises(100_000)


def test_a_process_continues_with_the_limit_of_the_last_one_within_its_own_setting() -> None:
    for kept, offsets in ((0, 100_000), (25_000, 25_000), (500_000, 100_000), (1, 1_562)):
        limit = BatchLimit(100_000, Clock())
        limit.resume(kept, 0)
        assert (limit.offsets, limit.full_at) == (offsets, offsets)
        assert not limit.is_failing_again


def test_a_batch_that_ends_process_after_process_becomes_smaller_each_time() -> None:
    kept, found = 0, []
    for ended in range(6):
        limit = BatchLimit(100_000, Clock())
        limit.resume(kept, ended)
        kept = limit.offsets if limit.is_lowered else 0
        found.append((limit.offsets, limit.is_failing_again))
    assert found == [(100_000, False), (100_000, False), (25_000, True), (6_250, True), (1_562, True), (1_562, True)]


def test_a_batch_is_full_although_the_source_rounds_the_shares_of_its_partitions() -> None:
    assert is_full(90, 100)
    assert not is_full(89, 100)
