"""The clock of the job's host is set, or runs wrong: what is said, and when, does not change."""

from collections.abc import Callable

import pytest

from detectors.engine import bucket
from detectors.engine.host_clock import FAR_MS, Heartbeat, HeartbeatClock, current_time
from detectors.incident import Transition
from streaming.job.rows import Packed
from streaming.job.stream_clock import read_up_to
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED
from tests.unit.detectors.arrivals import HEARTBEAT, Arrived, arrivals, batches, read
from tests.unit.detectors.streams import encoded

HOUR, DAY = 3_600_000, 86_400_000
BOOTED = 1_000_000
Skew = Callable[[int], int]


class Job:
    """A driver and a bucket; `skew` is how far the host's clock is ahead, ms, so long after the start."""

    def __init__(self, begins: int, skew: Skew, beats: bool = True) -> None:
        self.index, self.store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
        self.said: list[Transition] = []
        self.begins, self.skew, self.beats, self.run = begins, skew, beats, "aaaaaaaa"

    def step(self, batch: list[Arrived], now: int) -> None:
        clocks: dict[str, int] = {}
        for one in batch:
            clocks[one.partition] = max(clocks.get(one.partition, 0), one.timestamp)
        wall = now + self.skew(now - self.begins)
        beat = Heartbeat(self.run, now - self.begins + BOOTED, wall) if self.beats else None
        if HEARTBEAT in clocks and beat is None:
            clocks[HEARTBEAT] = wall
        packed = Packed(clocks=clocks, wall=wall, beat=beat if HEARTBEAT in clocks else None, heartbeat=HEARTBEAT)
        until, front = read_up_to(self.index, [packed])
        events = [event for one in batch for event in one.events]
        said = bucket.step(self.index, self.store, events, until, front=front)
        assert said.defects == []
        self.said += said.transitions


def job(name: str, skew: Skew, beats: bool = True) -> Job:
    arrived = [a for a in arrivals(name, {}) if a.at < arrivals_end(name)]
    made = Job(arrived[0].at, skew, beats)
    for batch in batches(arrived, iter(lambda: 1_000, 0)):
        if batch:
            made.step(batch, batch[-1].at)
    return made


def arrivals_end(name: str) -> int:
    return read(name)[-1].timestamp + 180_000


SKEWS: dict[str, Skew] = {
    "an hour ahead for five seconds": lambda t: HOUR if 60_000 <= t < 65_000 else 0,
    "an hour ahead from then on": lambda t: HOUR if t >= 60_000 else 0,
    "an hour back from then on": lambda t: -HOUR if t >= 60_000 else 0,
    "an hour back for a while": lambda t: -HOUR if 60_000 <= t < 200_000 else 0,
    "a day ahead": lambda t: DAY if t >= 30_000 else 0,
    "a day back": lambda t: -DAY if t >= 30_000 else 0,
    "fast by a tenth": lambda t: t // 10,
    "slow by a tenth": lambda t: -t // 10,
    "NTP sets it by a second now and then": lambda t: (t // 100_000) % 2 * 900,
}


@pytest.mark.parametrize("name", ["checkpoint-hung-then-done", "taskmanager-silent", "silence-becomes-stale"])
@pytest.mark.parametrize("skew", SKEWS.values(), ids=SKEWS)
def test_what_is_found_by_a_deadline_is_found_in_time(name: str, skew: Skew) -> None:
    """The first are found by deadlines, while nothing but the heartbeat moves the clock."""
    right, wrong = job(name, lambda _: 0), job(name, skew)
    assert [(t.incident, t.cause, t.transition) for t in wrong.said] == [
        (t.incident, t.cause, t.transition) for t in right.said
    ]
    assert all(abs(a.at - b.at) <= 15_000 for a, b in zip(wrong.said, right.said, strict=True))
    assert abs(wrong.index.clock - right.index.clock) < 25_000


def test_it_is_measured_how_wrong_the_host_is() -> None:
    assert job("taskmanager-silent", SKEWS["an hour ahead from then on"]).index.heartbeat_clock.wrong == HOUR
    assert job("taskmanager-silent", SKEWS["an hour ahead for five seconds"]).index.heartbeat_clock.wrong == 0


def test_without_beats_the_jump_is_believed() -> None:
    """As before: a heartbeat of somebody else tells nothing but its Kafka timestamp."""
    told = job("taskmanager-silent", SKEWS["an hour ahead for five seconds"], beats=False)
    assert told.index.clock > arrivals_end("taskmanager-silent") + HOUR // 2


def test_a_host_that_was_wrong_from_the_start_is_found_out_by_what_is_read() -> None:
    """Pulses came before the first record; two minutes later the clock is right, and deadlines are met again."""
    name = "checkpoint-hung-then-done"
    right, wrong = job(name, lambda _: 0), job(name, lambda _: HOUR)
    assert abs(wrong.index.clock - right.index.clock) < 10_000
    assert {t.cause for t in wrong.said} >= {t.cause for t in right.said}
    assert encoded(wrong.said[-1:])[0].count(b'"resolved"') == encoded(right.said[-1:])[0].count(b'"resolved"')


def test_a_host_that_is_set_right_is_believed_once_the_partitions_agree() -> None:
    beats = HeartbeatClock()
    start = 10 * DAY
    assert current_time(beats, Heartbeat("a", 0, start - HOUR), 0, 0) == start - HOUR
    assert current_time(beats, Heartbeat("a", 1_000, start + 1_000), 0, 0) == start - HOUR + 1_000
    assert current_time(beats, Heartbeat("a", 2_000, start + 2_000), start + 1_900, 0) == start + 2_000
    assert beats.wrong == 0


def test_another_process_is_another_monotonic_clock() -> None:
    beats = HeartbeatClock()
    current_time(beats, Heartbeat("a", 9_000_000, DAY), 0, 0)
    assert current_time(beats, Heartbeat("b", 5, DAY + HOUR), 0, 0) == DAY + HOUR


def test_one_partition_that_lags_far_for_a_moment_sets_nothing_back() -> None:
    beats = HeartbeatClock()
    for second in range(0, 600, 1):
        others = 10 * DAY + second * 1_000 - (HOUR if second % 100 == 0 else 0)
        now = current_time(
            beats, Heartbeat("a", second * 1_000, 10 * DAY + second * 1_000), others, 10 * DAY + second * 1_000
        )
        assert now == 10 * DAY + second * 1_000


def test_the_clock_of_a_bucket_goes_back_in_its_clusters_too() -> None:
    """What was said meanwhile was said then: nothing waits for the hour to pass."""
    name = "taskmanager-silent"
    made = job(name, lambda _: 0)
    clock = made.index.clock
    made.step([Arrived(0, HEARTBEAT, clock + HOUR, [])], clock + 1_000)
    state = made.index.deadlines
    made.index.go_back(clock - FAR_MS - 1)
    assert set(made.index.deadlines.values()) <= {0}
    bucket.step(made.index, made.store, [], clock - FAR_MS, front=clock - FAR_MS)
    assert made.index.clock == clock - FAR_MS
    assert set(made.index.deadlines) == set(state)
    assert min(made.index.deadlines.values()) > clock - FAR_MS
