"""A partition that lags: the output does not depend on the lag, nor on where the stream is cut."""

from collections.abc import Iterator
from itertools import chain, repeat
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.engine import bucket
from detectors.engine.late_partitions import BOUND_MS, Orders, PartitionOrder, StreamClocks, next_waiting, take
from detectors.events.event import MetricEvent
from streaming.recordings.replay import MemoryStore
from tests.recorded import NAMES, PUBLISHED, records
from tests.unit.detectors.arrivals import output, partitions
from tests.unit.detectors.streams import encoded, log, metric, page

SEVERAL = tuple(n for n in NAMES if len(partitions(n)) > 1 and len(records(n)) <= 6_000)
SHORT = tuple(
    n for n in SEVERAL if len(records(n)) <= 900 and records(n)[-1].timestamp - records(n)[0].timestamp < 10**6
)
SHORT = [n for n in SEVERAL if len(records(n)) <= 1_000 and records(n)[-1].timestamp - records(n)[0].timestamp < 1e6]
QUICK = SHORT[::4]
KNOWN_MS = BOUND_MS
FIRST = KNOWN_MS // 1_000 + 30


def cut(seed: int, most: int) -> Iterator[int]:
    """Batches of a second until the lag is known, then of up to `most` ms."""
    chance = Random(seed)
    return chain(repeat(1_000, FIRST), iter(lambda: chance.randint(1, most), 0))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(SHORT),
    st.integers(0, 3),
    st.sampled_from([5_000, 20_000, 90_000]),
    st.sampled_from([2_000, 10_000, 40_000, 120_000]),
    st.integers(0, 10**6),
)
def test_the_same_is_reported_whatever_the_lag_of_one_partition_and_wherever_the_stream_is_cut(
    name: str, number: int, lag: int, most: int, seed: int
) -> None:
    """All of it: ids, causes, texts, times. The lag is one that has been seen."""
    partition = partitions(name)[number % len(partitions(name))]
    late = output(name, {partition: lag}, cut(seed, most), KNOWN_MS)
    assert encoded(late) == encoded(output(name, {}, known_for=KNOWN_MS))


def test_the_text_of_two_failures_around_a_deadline_does_not_depend_on_the_lag() -> None:
    """The second failure is ahead of the clock, and an update is due before it."""
    name = "savepoint-missing-2.3.0"
    late = output(name, {partitions(name)[0]: 5_000}, cut(0, 2_000), KNOWN_MS)
    assert encoded(late) == encoded(output(name, {}, known_for=KNOWN_MS))


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in SEVERAL])
def test_incidents_have_the_same_ids_whichever_partition_is_ten_seconds_late(name: str) -> None:
    """An older checkpoint that is put back reads in order what came late the first time: nobody is told twice."""
    most = max(3_000, (records(name)[-1].timestamp - records(name)[0].timestamp) // 250)
    # Those of different clusters have no order.
    in_order = sorted(output(name, {}, repeat(most), KNOWN_MS), key=lambda t: t.cluster)
    for partition in partitions(name):
        late = output(name, {partition: 10_000}, cut(0, most), KNOWN_MS)
        assert encoded(sorted(late, key=lambda t: t.cluster)) == encoded(in_order), partition


@pytest.mark.parametrize("lag", [5_000, 20_000, 65_000, 90_000, 200_000])
@pytest.mark.parametrize("most", [2_000, 10_000, 40_000, 120_000])
def test_late_acks_are_named_although_the_jobmanager_s_partition_lags(lag: int, most: int) -> None:
    """From the first record: the lag is learned from the lines of its start."""
    chance, in_order = Random(lag + most), output("late-barrier-acks")[-1]
    for _ in range(2):
        widths = iter(lambda: chance.randint(1, most), 0)
        last = output("late-barrier-acks", {"flink.logs/0": lag}, widths)[-1]
        assert (last.cause, last.incident) == ("late_barrier_acks", in_order.incident)


def late(at: int, offset: int = 0) -> MetricEvent:
    """A sample of another partition than `metric` gives."""
    return msgspec.structs.replace(metric("heap_used", at, 1.0, offset), partition=7)


def clocks(until: int, before: int, front: int) -> StreamClocks:
    start = metric("heap_used", 0, 0.0).timestamp
    return StreamClocks(start + until, start + before, start + front)


def test_where_nothing_is_late_nothing_waits() -> None:
    """Batches of prompt partitions are a little apart: that is no lag."""
    orders: Orders = {}
    for second in range(1, 60):
        now = second * 1_000
        events = [metric("heap_used", now - 1_900, 1.0, second), metric("heap_used", now, 1.0, second)]
        taken = take(orders, "c", [*events], clocks(now, now - 1_000, now))
        assert (taken.events, taken.until) == (events, clocks(now, 0, 0).until)
    assert orders == {}


def test_once_one_is_late_the_younger_ones_wait_for_the_next() -> None:
    orders: Orders = {}
    take(orders, "c", [late(80_000)], clocks(90_000, 90_000, 91_000))
    young = metric("heap_used", 91_500, 1.0)
    assert take(orders, "c", [young], clocks(92_000, 91_000, 92_000)).events == []
    assert next_waiting(orders, "c") == young.timestamp
    old = late(91_000)
    assert take(orders, "c", [old], clocks(102_500, 101_500, 102_500)).events == [old]
    taken = take(orders, "c", [], clocks(103_000, 102_500, 103_000))
    assert taken.events == [young]
    assert taken.until >= young.timestamp


def test_other_clusters_do_not_wait() -> None:
    orders: Orders = {}
    take(orders, "c", [late(80_000)], clocks(90_000, 90_000, 91_000))
    other = metric("heap_used", 91_500, 1.0)
    assert take(orders, "d", [other], clocks(92_000, 91_000, 92_000)).events == [other]


@pytest.mark.parametrize(("silent", "waits"), [(3_600_000, True), (6 * 3_600_000 + 1, False)])
def test_a_lag_is_kept_while_nothing_can_be_known_of_it_for_hours(silent: int, waits: bool) -> None:
    orders: Orders = {}
    take(orders, "c", [late(80_000)], clocks(90_000, 90_000, 91_000))
    now = 91_000 + silent
    take(orders, "c", [metric("heap_used", now, 1.0)], clocks(now, now, now))
    assert bool(orders) == waits


def test_a_lag_is_forgotten_once_its_partition_has_been_prompt_for_a_while() -> None:
    orders: Orders = {}
    take(orders, "c", [late(80_000)], clocks(90_000, 90_000, 91_000))
    for minute in range(2, 35):
        now = minute * 60_000
        take(orders, "c", [late(now)], clocks(now, now - 1_000, now))
    assert orders == {}


def test_what_is_later_than_is_waited_for_makes_nobody_wait() -> None:
    """A producer whose clock is an hour behind, or an old file that is shipped."""
    orders: Orders = {}
    old = late(0)
    assert take(orders, "c", [old], clocks(BOUND_MS + 1_000, BOUND_MS + 1_000, BOUND_MS + 2_000)).events == [old]
    assert orders == {}


def test_what_waits_is_bounded_and_the_oldest_goes_on() -> None:
    """Samples count as lines do: in all clusters of a bucket together."""
    orders: Orders = {}
    samples = page(0, [], 0).samples
    for number in range(20):
        cluster = f"c{number}"
        take(orders, cluster, [late(10_000)], clocks(90_000, 90_000, 91_000))
        many = [
            msgspec.structs.replace(metric("heap_used", 91_000 + n, 1.0, n), samples=[*samples, *[None] * 99])
            for n in range(100)
        ]
        taken = take(orders, cluster, [*many], clocks(92_000, 91_000, 92_000))
        kept = orders[cluster].waiting
        assert len(taken.events) + len(kept) == 100
        assert max((e.timestamp for e in taken.events), default=0) < min((e.timestamp for e in kept), default=1 << 62)
    assert sum(100 for o in orders.values() for _ in o.waiting) <= 50_000
    assert sum(len(o.waiting) for o in orders.values()) == 500


def test_an_order_survives_bytes() -> None:
    index = bucket.BucketIndex(front=5)
    take(index.orders, "c", [late(80_000)], clocks(90_000, 90_000, 91_000))
    take(
        index.orders,
        "c",
        [metric("heap_used", 91_500, 1.0), log("tm_registered", 91_600, tm="t")],
        clocks(92_000, 91_000, 92_000),
    )
    assert bucket.decode_index(bucket.encode_index(index)) == index
    assert isinstance(index.orders["c"], PartitionOrder)


def test_what_waits_does_not_hang_on_an_event_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is lost alone, and what waits is taken in its turn."""
    from detectors.kinds.processes.taskmanager_lost import TaskManagerLost

    index, store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
    at = metric("heap_used", 0, 0.0).timestamp
    bucket.step(index, store, [late(0)], at + 30_000, front=at + 30_000)
    bucket.step(index, store, [late(20_000)], at + 31_000, front=at + 31_000)
    lost = log("tm_unreachable", 31_000, 3, tm="tm-1:6122-aaaaaa")
    bucket.step(index, store, [lost], at + 32_000, front=at + 32_000)
    assert index.orders["c"].waiting == [lost]
    with monkeypatch.context() as broken:
        broken.setattr(TaskManagerLost, "fact", lambda *_: 1 / 0)
        output = bucket.step(index, store, [], at + 90_000, front=at + 90_000)
    assert [d.event for d in output.defects] == [lost]
    assert index.orders["c"].waiting == []
