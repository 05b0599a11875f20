"""Laws of every detector: scrapes that are 30, 60 or 120 s apart show the same incidents as scrapes 5 s apart.

Fewer samples may show an incident later, or not at all if it is short. They must not make one incident into many.
"""

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from detectors import DETECTORS
from detectors.events.event import Event, MetricEvent, Sample
from detectors.events.names import filtered
from detectors.incident import Transition
from tests.recorded import NAMES, events
from tests.unit.detectors.story import HOUR, JOB, MINUTE, SECOND, Story
from tests.unit.detectors.streams import METRICS, START, alone, in_order, run

INTERVALS = (30, 60, 120)
SCRAPED = tuple(n for n in NAMES if any(isinstance(e, MetricEvent) for e in events(n)))
TM = "tm-1:6122-aaaaaa"
LABELS = {"tm_id": filtered(TM), "host": "tm-1"}
JOB_LABELS = {**LABELS, "job_id": JOB}
SAME_SCRAPE = 400
EVERY = 5
"""The interval in seconds at which a made-up process is scraped before its scrapes are thinned."""

at_intervals = pytest.mark.parametrize("every", INTERVALS)
seeds = pytest.mark.parametrize("seed", range(2))


def thinned(stream: list[Event], every: int) -> list[Event]:
    """The stream as it would be if each source were scraped every so many seconds. The parts of a scrape stay."""
    last: dict[str, int] = {}
    kept: list[Event] = []
    for event in stream:
        if isinstance(event, MetricEvent):
            if event.time - last.get(event.source, -HOUR) >= (every - 1) * SECOND:
                last[event.source] = event.time
            if event.time - last[event.source] > SAME_SCRAPE:
                continue
        kept.append(event)
    return kept


def by_incident(transitions: list[Transition]) -> dict[str, list[Transition]]:
    found: dict[str, list[Transition]] = {}
    for transition in transitions:
        found.setdefault(transition.incident, []).append(transition)
    return found


def openings(transitions: list[Transition]) -> int:
    return sum(t.transition == "opened" for t in transitions)


def reopenings(transitions: list[Transition]) -> int:
    """How often an incident continues after it was resolved."""
    own = by_incident(transitions).values()
    return sum(a.transition == "resolved" and not b.part_of for one in own for a, b in pairwise(one))


def severity_changes(transitions: list[Transition]) -> int:
    """The number of changes of the incident that has most."""
    own = by_incident(transitions).values()
    return max((sum(a.severity != b.severity for a, b in pairwise(one)) for one in own), default=0)


@at_intervals
@pytest.mark.parametrize("name", SCRAPED)
def test_fewer_scrapes_of_a_recording_open_no_more_incidents_and_reopen_none(name: str, every: int) -> None:
    whole = in_order(events(name))
    then = run(thinned(whole, every))
    assert openings(then) <= openings(run(whole))
    assert reopenings(then) == 0
    assert severity_changes(then) <= 3


class Process(Story):
    """Processes that are scraped every five seconds, and their numbers."""

    def scraped(self, samples: Callable[[int], list[Sample]], until: int, source: str = "tm-1") -> "Process":
        """The samples at each scrape, which are given for its second, until a time in ms."""
        for second in range(0, until // SECOND, EVERY):
            self.scrape(*samples(second), at=second * SECOND, source=source, host=source)
        return self

    def starts(self) -> "Process":
        self.line("tm_started", 0, tm=TM, source="tm-1").line("tm_registered", 0, tm=TM).runs(0)
        return self

    def checkpointed(self, until: int, lasting: Callable[[int], int] = lambda _: 4 * SECOND) -> "Process":
        """A checkpoint each minute, which completes between two scrapes."""
        for minute in range(until // MINUTE):
            self.at(minute * MINUTE + 7 * SECOND).checkpoint(lasting(minute), size=100_000_000)
        return self


def heap(chance: Random, floor: int, shares: tuple[float, float], spread: int = 1000, calm: float = 0.01) -> Process:
    """Ninety minutes with a high floor (MB of 1000) and much time in collections, between calm times."""
    spent, count, share = 0.0, 0, 0.0

    def samples(second: int) -> list[Sample]:
        nonlocal spent, count, share
        bad = 600 <= second < 6_000
        if second % 30 == 0:
            share = chance.uniform(*shares) if bad else calm
        spent, count = spent + share * EVERY * SECOND, count + (1 if bad else second % 30 == 0)
        collected = {**LABELS, "collector": "PS_MarkSweep"}
        return [
            Sample("heap_max", LABELS, 1e9),
            Sample("heap_used", LABELS, 1e6 * (chance.uniform(floor, spread) if bad else chance.uniform(300, 600))),
            Sample("gc_time", collected, spent),
            Sample("gc_count", collected, count),
        ]

    return Process("heap_exhaustion").starts().scraped(samples, 2 * HOUR).checkpointed(2 * HOUR)


def slow_operator(chance: Random, usual: float) -> Process:
    """An operator that is busy with pauses, and checkpoints that take longer or much longer."""
    source, sink = {"task_id": "f" * 32, "task_name": "Source: orders"}, {"task_id": "e" * 32, "task_name": "sink"}

    def samples(second: int) -> list[Sample]:
        bad = 600 <= second < 6_000
        busy = min(1000, max(0, chance.gauss(usual, 60))) if bad else chance.uniform(100, 400)
        waits = min(1000, max(0, chance.gauss(700, 300))) if bad else 0
        return [
            Sample("busy_time", {**JOB_LABELS, **sink, "subtask_index": "0"}, busy),
            Sample("busy_time", {**JOB_LABELS, **source, "subtask_index": "0"}, 100),
            Sample("backpressured_time", {**JOB_LABELS, **source, "subtask_index": "0"}, waits),
        ]

    slow = [chance.choice((20, 40)) * SECOND for _ in range(200)]
    history = Process("backpressure").starts().scraped(samples, 2 * HOUR)
    return history.checkpointed(2 * HOUR, lambda minute: slow[minute] if 10 <= minute < 100 else SECOND)


def leak(chance: Random, reads: bool = False) -> Process:
    """The lows of the heap's sawtooth rise for eight hours while nothing is read."""
    used, young = 200.0, 0

    def samples(second: int) -> list[Sample]:
        nonlocal used, young
        floor = 200 + 600 * second / 28_800
        used += chance.uniform(0.5, 1.5) * EVERY
        if used > floor + 150:
            used, young = floor + chance.uniform(0, 15), young + 1
        return [
            Sample("heap_max", LABELS, 1e9),
            Sample("heap_used", LABELS, used * 1e6),
            Sample("gc_count", {**LABELS, "collector": "PS_Scavenge"}, young),
            Sample("gc_count", {**LABELS, "collector": "PS_MarkSweep"}, young // 10),
            Sample("records_in", {**JOB_LABELS, "task_id": "e" * 32, "subtask_index": "0"}, second * 100 * reads),
        ]

    return Process("zero_input_leak").starts().scraped(samples, 8 * HOUR)


def classes(chance: Random) -> Process:
    """Each deployment leaves classes behind; what is in use varies about the level that warns."""
    deployed = 0

    def samples(second: int) -> list[Sample]:
        used = min(60 + 50 * deployed, 208) * chance.uniform(0.97, 1.02)
        return [Sample("metaspace_max", LABELS, 256e6), Sample("metaspace_used", LABELS, used * 1e6)]

    history = Process("metaspace_exhaustion").starts()
    for second in range(0, 3 * 3_600, EVERY):
        if second % 1_800 == 900:
            deployed += 1
            history.state("RUNNING", "CREATED", second * SECOND, job=f"{second:032x}")
        history.scrape(*samples(second), at=second * SECOND, source="tm-1", host="tm-1")
    return history


def unsteady(chance: Random) -> Process:
    """One process whose every third scrape fails, and then all of them for half an hour; another one is in order."""

    def samples(_: int) -> list[Sample]:
        return [Sample("registered_task_managers", {"host": "jm"}, 2)]

    history = Process("telemetry_lost").starts().scraped(samples, 2 * HOUR, "jm").checkpointed(2 * HOUR)
    for second in range(0, 7_200, EVERY):
        if chance.random() > 0.3 and not 3_000 <= second < 4_800:
            history.scrape(Sample("heap_used", LABELS, 5e8), at=second * SECOND, source="tm-1", host="tm-1")
    return history


def hanging(chance: Random) -> Process:
    """One checkpoint among many that hangs for half an hour."""
    lasting = [1_800 if minute == 40 else chance.randrange(1, 20) for minute in range(120)]

    def samples(second: int) -> list[Sample]:
        going = sum(m * 60 + 7 <= second < m * 60 + 7 + lasting[m] for m in range(120))
        return [Sample("checkpoints_in_progress", {"job_id": JOB, "host": "jm"}, going)]

    history = Process("checkpoint_overdue").starts().scraped(samples, 2 * HOUR, "jm")
    for minute in range(120):
        if not 40 < minute < 71:
            history.at(minute * MINUTE + 7 * SECOND).checkpoint(lasting[minute] * SECOND)
    return history


def longer_and_longer(chance: Random) -> Process:
    """Checkpoints, known from gauges alone, take longer from hour to hour."""

    def samples(second: int) -> list[Sample]:
        minute = second // 60
        lasting = 5_000 + max(minute - 60, 0) * 400 + Random(f"{seed} {minute}").randrange(1_000)
        return [
            Sample("completed_checkpoints", {"job_id": JOB}, minute),
            Sample("last_checkpoint_duration", {"job_id": JOB}, lasting),
        ]

    seed = chance.random()
    return Process("checkpoint_duration_creep").starts().scraped(samples, 3 * HOUR, "jm")


SOURCE = {**JOB_LABELS, "task_id": "f" * 32, "task_name": "Source: orders", "subtask_index": "0"}
SINK = {**JOB_LABELS, "task_id": "e" * 32, "task_name": "sink", "subtask_index": "0"}


def falling_behind(chance: Random) -> Process:
    """A source that reads between a third and two thirds of its input for an hour, all of it before, more after."""
    lag = 2.0

    def samples(second: int) -> list[Sample]:
        nonlocal lag
        lag += EVERY * chance.uniform(0.3, 0.7) * (1_200 <= second < 4_800)
        lag = max(2.0, lag - 20 * EVERY) if second >= 4_800 else lag
        own = {**SOURCE, "operator_name": "Source: orders"}
        return [
            Sample("event_time_lag", own, 1_000 * (lag + chance.uniform(0, 2))),
            Sample("operator_records_in", own, 100.0 * second),
        ]

    return Process("lag_growing").starts().scraped(samples, 6_000 * SECOND)


def too_late(chance: Random) -> Process:
    """A window operator that drops between 2 and 8 percent of its input for an hour."""
    dropped = 0.0

    def samples(second: int) -> list[Sample]:
        nonlocal dropped
        dropped += EVERY * chance.uniform(2, 8) * (second >= 1_200)
        own = {**SINK, "operator_id": "d" * 32, "operator_name": "Windows"}
        return [
            Sample("operator_records_in", own, 100.0 * second),
            Sample("late_records", own, float(int(dropped))),
        ]

    return Process("late_records_dropped").starts().scraped(samples, 4_800 * SECOND)


def blocked(chance: Random) -> Process:
    """A sink that processes nothing for an hour while its source waits."""

    def samples(second: int) -> list[Sample]:
        stuck = 1_200 <= second < 4_800
        flowed = 100.0 * (second - min(max(second - 1_200, 0), 3_600))
        return [
            Sample("records_in", SINK, flowed),
            Sample("records_out", SOURCE, flowed),
            Sample("busy_time", SINK, 1_000.0 if stuck else chance.uniform(100, 300)),
            Sample("backpressured_time", SOURCE, chance.uniform(950, 1_000) if stuck else 0.0),
            Sample("backpressured_time", SINK, 0.0),
        ]

    return Process("task_stuck").starts().scraped(samples, 6_000 * SECOND)


def standing(chance: Random) -> Process:
    """A watermark that stands for an hour while records arrive; before, it follows them with pauses."""
    reached = 0

    def samples(second: int) -> list[Sample]:
        nonlocal reached
        if not 1_200 <= second < 4_800 and chance.random() < 0.8:
            reached = second
        return [
            Sample("input_watermark", SINK, float(START + 1_000 * reached)),
            Sample("records_in", SINK, 100.0 * second),
        ]

    return Process("watermark_stalled").starts().scraped(samples, 6_000 * SECOND)


def failing_sink(chance: Random) -> Process:
    """A sink of whose records 3 to 9 percent fail for an hour."""
    failed = 0.0

    def samples(second: int) -> list[Sample]:
        nonlocal failed
        failed += EVERY * chance.uniform(3, 9) * (second >= 1_200)
        own = {**SINK, "operator_name": "Writer"}
        return [
            Sample("records_out_errors", own, float(int(failed))),
            Sample("records_sent", own, 100.0 * second),
        ]

    return Process("sink_data_lost").starts().scraped(samples, 4_800 * SECOND)


CONTAINER = {"pod": "orders-taskmanager-1-1", "container": "flink-main-container"}


def contained(chance: Random, rises: bool = True) -> Process:
    """The memory of a container rises to its limit within two hours, or has always been near it."""

    def samples(second: int) -> list[Sample]:
        share = 0.8 + 0.19 * max(0, second - 3_600) / 7_200 if rises else 0.97
        return [
            Sample("container_memory_limit", CONTAINER, 2e9),
            Sample("container_memory", CONTAINER, 2e9 * (share + chance.gauss(0, 0.002))),
        ]

    return Process("memory_limit_kill").starts().scraped(samples, 3 * HOUR, "node-7")


def more_threads(chance: Random) -> Process:
    """A process gets two more threads each minute for six hours."""

    def samples(second: int) -> list[Sample]:
        return [Sample("threads", LABELS, 100 + 2 * max(0, second // 60 - 60) + chance.randrange(20))]

    return Process("thread_exhaustion").starts().scraped(samples, 7 * HOUR)


FAULTS: dict[str, Callable[[Random], Process]] = {
    "a full heap": lambda chance: heap(chance, 920, (0.2, 0.5)),
    "a heap with much garbage": lambda chance: heap(chance, 600, (0.2, 0.5)),
    "a heap about the limits": lambda chance: heap(chance, 880, (0.1, 0.5)),
    "a heap that is sometimes calm": lambda chance: heap(chance, 850, (0.05, 0.4)),
    "a full heap and short collections": lambda chance: heap(chance, 920, (0.02, 0.12), 990),
    "an operator that is always busy": lambda chance: slow_operator(chance, 990),
    "an operator with pauses": lambda chance: slow_operator(chance, 940),
    "a leak": leak,
    "classes that stay": classes,
    "a process that is hardly scraped": unsteady,
    "a checkpoint that hangs": hanging,
    "checkpoints that take longer": longer_and_longer,
    "a source that falls behind": falling_behind,
    "records that come too late": too_late,
    "a sink that is blocked": blocked,
    "a watermark that stands": standing,
    "a sink whose records fail": failing_sink,
    "a container that fills up": contained,
    "threads that never end": more_threads,
}
HEALTHY: dict[str, Callable[[Random], Process]] = {
    "a sawtooth": lambda chance: heap(chance, 300, (0.02, 0.05)),
    "a high sawtooth": lambda chance: heap(chance, 650, (0.02, 0.08)),
    "a leak that the input explains": lambda chance: leak(chance, reads=True),
    "a container at its limit": lambda chance: contained(chance, rises=False),
}


ENDS = {
    "a full heap": 6_000,
    "a heap with much garbage": 6_000,
    "a process that is hardly scraped": 4_800,
    "a source that falls behind": 4_800,
    "a sink that is blocked": 4_800,
    "a watermark that stands": 4_800,
}
"""The second at which a fault ends that samples alone show to have ended."""


def faults(every: int, history: Process, kinds: tuple[str, ...]) -> list[Transition]:
    stream = in_order(history.events)
    return run(thinned(stream, every), (), stream[-1].timestamp + MINUTE, alone(*kinds))


def third_scrape(history: Process, every: int, second: int) -> int:
    """The time of the third scrape of the faulty process after a second."""
    scraped = (e for e in thinned(in_order(history.events), every) if isinstance(e, MetricEvent) and e.source == "tm-1")
    return sorted(e.time for e in scraped if e.time >= START + second * SECOND)[2]


@seeds
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_incident_however_often_it_is_scraped_and_closes_on_three_calm_samples_at_the_earliest(
    fault: str, seed: int
) -> None:
    history = FAULTS[fault](Random(seed))
    for every in (EVERY, 15, *INTERVALS):
        found = faults(every, history, history.kinds)
        assert openings(found) == 1, every
        assert reopenings(found) == 0, every
        assert not any("recurred" in t.reason for t in found), every
        assert severity_changes(found) <= 1, every
        if fault in ENDS:
            (resolved,) = (t.at for t in found if t.transition == "resolved")
            assert resolved >= third_scrape(history, every, ENDS[fault]), every


@seeds
@pytest.mark.parametrize("course", HEALTHY)
def test_what_is_healthy_is_healthy_however_often_it_is_scraped(course: str, seed: int) -> None:
    history = HEALTHY[course](Random(seed))
    for every in (EVERY, 15, *INTERVALS):
        assert faults(every, history, history.kinds) == [], every


BY_FACT = {
    "broker_unreachable": "a connection is only a sign of its end; test_broker_unreachable.py",
    "job_missing": "samples only show that a job runs; test_job_missing.py",
    "clock_skew": "each sample is compared with its own arrival",
    "jobmanager_lost": "a sample is only a sign of life; test_jobmanager_lost.py",
    "late_barrier_acks": "samples only show what barriers wait for; test_late_barrier_acks.py",
    "taskmanager_lost": "samples only show that it continues; test_taskmanager_lost.py",
    "slots_unavailable": "a count of TaskManagers does not vary by itself",
}
"""Detectors that need no fault above, and why."""


def test_every_detector_of_metrics_has_a_fault_here() -> None:
    measuring = {d.kind for d in DETECTORS if d.event_types & METRICS}
    assert {kind for made in FAULTS.values() for kind in made(Random(0)).kinds} | set(BY_FACT) >= measuring
