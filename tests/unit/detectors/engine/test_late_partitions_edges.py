"""How long a cluster waits for a late partition, from when until when, and for how much at most."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.engine.late_partitions import Orders, StreamClocks, cluster_clock, next_waiting, take
from detectors.events.event import MetricEvent, Sample
from tests.unit.detectors.streams import START, log, metric

QUARTER, HOUR = 900_000, 3_600_000


def event(at: int, partition: int = 0, samples: int = 1) -> MetricEvent:
    """A scrape whose record is dated `at` ms after START."""
    found = metric("heap_used", at, 1.0)
    many = [Sample("heap_used", {}, 1.0)] * samples
    return msgspec.structs.replace(found, timestamp=START + at, partition=partition, samples=many)


def clocks(until: int, before: int | None = None, front: int | None = None) -> StreamClocks:
    """By default the stream was there already before the batch."""
    before, front = until if before is None else before, until if front is None else front
    return StreamClocks(START + until, START + before, START + front)


def waits(*events: MetricEvent, at: StreamClocks) -> int:
    """How long a cluster waits after a first batch."""
    orders: Orders = {}
    take(orders, "c", [*events], at)
    return orders["c"].wait() if orders else 0


@pytest.mark.parametrize(
    ("late", "wait"), [(1_000, 0), (1_001, 1_001), (30_000, 30_000), (120_000, 120_000), (120_001, 0)]
)
def test_more_than_a_second_and_up_to_two_minutes_is_waited_for(late: int, wait: int) -> None:
    assert waits(event(600_000 - late), at=clocks(600_000)) == wait


def test_a_lag_is_at_most_what_the_batch_shows_and_twice_what_is_certain() -> None:
    """The batch took the stream from `before` to `front`: how late the event was lies between both."""
    assert waits(event(595_000), at=clocks(600_000, front=602_000)) == 7_000
    assert waits(event(595_000), at=clocks(600_000, front=660_000)) == 10_000
    assert waits(event(500_000), at=clocks(600_000, front=660_000)) == 120_000


def test_the_latest_of_all_partitions_and_of_both_windows_counts() -> None:
    orders: Orders = {}
    take(orders, "c", [event(600_000), event(595_000, 1), event(580_000, 2), event(590_000, 3)], clocks(600_000))
    assert orders["c"].wait() == 20_000
    take(orders, "c", [event(600_000 + QUARTER, n) for n in (1, 2, 3)], clocks(600_000 + QUARTER))
    assert orders["c"].wait() == 20_000
    assert cluster_clock(orders, "c", clocks(600_000 + QUARTER)) == START + 580_000 + QUARTER


@pytest.mark.parametrize(
    ("times", "wait"),
    [
        ((1_000, 2_000, 3_000), 20_000),
        ((QUARTER - 1, 2 * QUARTER - 2), 20_000),
        ((QUARTER, 2 * QUARTER - 1), 20_000),
        ((QUARTER, 2 * QUARTER), 0),
    ],
)
def test_a_lag_counts_for_the_rest_of_its_window_and_for_the_next_one(times: tuple[int, ...], wait: int) -> None:
    orders: Orders = {}
    take(orders, "c", [event(580_000)], clocks(600_000))
    for after in times:
        take(orders, "c", [event(600_000 + after)], clocks(600_000 + after))
    assert (orders["c"].wait() if orders else 0) == wait


@pytest.mark.parametrize(("silent", "wait"), [(6 * HOUR - 1, 100_000), (6 * HOUR, 0)])
def test_a_lag_is_forgotten_after_six_hours_and_what_waited_is_taken(silent: int, wait: int) -> None:
    orders: Orders = {}
    take(orders, "c", [event(500_000)], clocks(600_000))
    waiting = event(601_000, 5)
    assert take(orders, "c", [waiting], clocks(601_000)).events == []
    now = 600_000 + silent
    assert take(orders, "c", [], clocks(now)).events == [waiting]
    assert (orders["c"].wait() if orders else 0) == wait


def test_a_cluster_that_need_not_wait_any_longer_takes_all_at_once() -> None:
    orders: Orders = {}
    take(orders, "c", [event(580_000)], clocks(600_000))
    now = 600_000 + 6 * HOUR
    other = event(now, 5)
    taken = take(orders, "c", [other], clocks(now))
    assert (taken.events, taken.until) == ([other], START + now)
    assert orders == {}


def test_the_oldest_that_waits_is_the_next_one() -> None:
    orders: Orders = {}
    assert next_waiting(orders, "c") is None
    take(orders, "c", [event(500_000)], clocks(600_000))
    take(orders, "c", [event(603_000), event(601_000), event(602_000)], clocks(604_000))
    assert next_waiting(orders, "c") == START + 601_000
    taken = take(orders, "c", [], clocks(702_000))
    assert sorted(e.timestamp - START for e in taken.events) == [601_000, 602_000]
    assert taken.until == START + 602_000


def test_an_event_far_ahead_does_not_wait() -> None:
    orders: Orders = {}
    take(orders, "c", [event(580_000)], clocks(600_000))
    near, far = event(580_000 + 120_000), event(580_000 + 120_001)
    assert take(orders, "c", [near, far], clocks(600_000)).events == [far]
    assert orders["c"].waiting == [near]


def test_what_was_read_ahead_does_not_overtake_what_its_partition_had_before_it() -> None:
    """A soak lost an expired checkpoint: it waited for another partition while completions after it were taken."""
    orders: Orders = {}
    take(orders, "c", [event(590_000, 1)], clocks(600_000))
    first, later, far = (
        msgspec.structs.replace(event(at), offset=n) for n, at in enumerate((610_000, 700_000, 900_000), 7)
    )
    assert take(orders, "c", [first], clocks(601_000, 600_000, 610_000)).events == []
    other = msgspec.structs.replace(event(720_000, 1), offset=3)
    behind = clocks(650_000, 610_000, 900_000)
    assert take(orders, "c", [later, far, other], behind).events == [first, later, far]
    assert orders["c"].waiting == [other]


@given(st.lists(st.tuples(*[st.integers(0, 300_000)] * 3), min_size=1, max_size=12))
def test_each_partition_is_taken_in_its_order_however_far_the_others_are(batches: list[tuple[int, ...]]) -> None:
    """Each batch reads each partition as far on as is said, in ms; a line comes every 20 s."""
    orders: Orders = {}
    reached, taken, front = [0, 0, 0], [-1, -1, -1], 0
    for batch in batches:
        events = []
        for partition, on in enumerate(batch):
            begin, reached[partition] = reached[partition], reached[partition] + on
            times = range(20_000 * (begin // 20_000 + 1), reached[partition] + 1, 20_000)
            events += [msgspec.structs.replace(event(at, partition), offset=at // 20_000) for at in times]
        before, front = front, max(front, *reached)
        now = take(orders, "c", events, clocks(min(reached), before, front)).events
        for partition in range(3):
            offsets = [e.offset for e in now if e.partition == partition]
            assert min(offsets, default=taken[partition] + 1) > taken[partition]
            taken[partition] = max(taken[partition], *offsets) if offsets else taken[partition]


def test_a_producer_with_a_wrong_clock_keeps_nothing_from_waiting() -> None:
    orders: Orders = {}
    take(orders, "c", [event(590_000, 1)], clocks(600_000))
    good, wrong = event(605_000), msgspec.structs.replace(event(HOUR + 605_000), offset=8)
    assert take(orders, "c", [good, wrong], clocks(606_000, 600_000)).events == [wrong]
    assert orders["c"].waiting == [good]


def test_sixty_four_partitions_of_a_cluster_are_followed() -> None:
    orders: Orders = {}
    take(orders, "c", [event(580_000, n) for n in range(100)], clocks(600_000))
    assert len(orders["c"].lags) == 64


@pytest.mark.parametrize(("each", "count", "kept"), [(9_999, 5, 5), (9_999, 6, 5), (10_000, 5, 4), (24_999, 3, 2)])
def test_fifty_thousand_lines_and_samples_wait_and_the_oldest_go_first(each: int, count: int, kept: int) -> None:
    orders: Orders = {}
    take(orders, "c", [event(500_000)], clocks(600_000))
    times = [601_000 + 7 * (n + 1) % 11 for n in range(count)]
    taken = take(orders, "c", [event(at, samples=each) for at in times], clocks(604_000))
    assert sorted(e.timestamp - START for e in taken.events) == sorted(times)[: count - kept]
    assert sorted(e.timestamp - START for e in orders["c"].waiting) == sorted(times)[count - kept :]


def test_lines_of_a_log_count_one_each() -> None:
    orders: Orders = {}
    take(orders, "c", [event(500_000)], clocks(600_000))
    line = log("tm_registered", 603_000, lag=0, tm="t")
    assert take(orders, "c", [line] * 40_000, clocks(604_000)).events == []
