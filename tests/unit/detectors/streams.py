"""Streams of events for the laws: slices of scenarios, and made-up ones that no Flink would write."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import strategies as st

from detectors import bucket
from detectors.bucket import Said
from detectors.events.event import Event, LogEvent, MetricEvent, Sample
from detectors.events.metrics import NAMES as METRICS
from detectors.events.vocabulary import MEANINGS
from detectors.incidents.incident import Transition
from streaming.replay import MemoryStore
from tests.recorded import PUBLISHED

START = 1_700_000_000_000
JOBS = ("a" * 32, "b" * 32)
TMS = ("tm-1:6122-aaaaaa", "tm-2:6122-bbbbbb", "tm-3:6122-cccccc")
STATES = ("RUNNING", "RESTARTING", "FAILING", "CANCELLING", "CANCELED", "FINISHED", "FAILED", "SUSPENDED", "CREATED")
REASONS = (
    "The heartbeat of TaskManager with id x timed out.",
    "The TaskExecutor is shutting down.",
    "Container is running beyond the 'PHYSICAL' memory limit.",
    "Something nobody has seen.",
)


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sorted as Kafka timestamps, and as the engine breaks ties."""
    return sorted(events, key=lambda e: (e.timestamp, e.topic, e.partition, e.offset))


def run(events: Sequence[Event], cuts: Iterable[int] = (), until: int | None = None) -> list[Transition]:
    """The transitions of a stream cut before the events at `cuts`; the clock is the greatest timestamp so far."""
    index, store = bucket.Index(published=PUBLISHED), MemoryStore()
    edges = sorted({0, len(events), *(c % (len(events) + 1) for c in cuts)})
    said: list[Transition] = []
    clock = 0
    for start, end in pairwise(edges):
        batch = events[start:end]
        clock = max(clock, *(e.timestamp for e in batch))
        said += _checked(bucket.step(index, store, batch, clock))
    if until is not None:
        said += _checked(bucket.step(index, store, [], until))
    return said


def _checked(said: Said) -> list[Transition]:
    assert said.defects == []
    return said.transitions


def encoded(transitions: Iterable[Transition]) -> list[bytes]:
    """As they are written to Kafka: to compare all of it."""
    return [msgspec.json.encode(t) for t in transitions]


def log(meaning: str, at: int, offset: int = 0, source: str = "jm", lag: int = 100, **fields: str) -> LogEvent:
    """A line written at `at` ms after START, in UTC, that arrives `lag` ms later."""
    time = START + at
    return LogEvent(
        meaning, "c", source, source, time + lag, time, "flink.logs", 0, offset, fields, f"{meaning} {fields}"
    )


def metric(name: str, at: int, value: float, offset: int = 0, **labels: str) -> MetricEvent:
    """One sample taken at `at` ms after START."""
    time = START + at
    return MetricEvent("c", "m", "h", time + 50, time, "flink.metrics", 0, offset, [Sample(name, labels, value)])


def _fields(draw: Any, meaning: str, at: int) -> dict[str, str]:
    job, tm = draw(st.sampled_from(JOBS)), draw(st.sampled_from(TMS))
    number = str(draw(st.integers(1, 6)))
    return {
        "checkpoint": number,
        "job": job,
        "attempt": draw(st.sampled_from(("1" * 32, "2" * 32, "3" * 32, "4" * 32))),
        "duration": str(draw(st.integers(0, 100_000))),
        "bytes": "1",
        "epoch": str(START + at),
        "state": draw(st.sampled_from(STATES)),
        "before": "RUNNING",
        "name": "orders",
        "task": "map",
        "subtask": number,
        "parallelism": "6",
        "tm": tm,
        "host": tm[:4],
        "address": tm.rpartition("-")[0],
        "reason": draw(st.sampled_from(REASONS)),
        "signal": "15",
        "version": "1.20.5",
        "what": "TaskManager",
        "status": "SUCCEEDED",
    }


@st.composite
def made_up(draw: Any, most: int = 40) -> list[Event]:
    """Any events of the vocabulary in any order, seconds to minutes apart, about two jobs and three TaskManagers."""
    at, events = 0, []
    for offset in range(draw(st.integers(1, most))):
        at += draw(st.sampled_from((0, 1, 500, 3_000, 20_000, 61_000, 400_000, 1_000_000)))
        if draw(st.integers(0, 9)) == 0:
            name = draw(st.sampled_from(sorted(METRICS.values())))
            value = draw(st.sampled_from((0.0, 1.0, 1e9, -1.0)))
            events.append(metric(name, at, value, offset, job_id=JOBS[0], tm_id=draw(st.sampled_from(TMS))))
        else:
            meaning = draw(st.sampled_from(sorted(MEANINGS)))
            source = draw(st.sampled_from(("jm", "tm-1", "tm-2")))
            lag = draw(st.sampled_from((0, 1, 100)))  # on the second at which deadlines are met, and off it
            events.append(log(meaning, at, offset, source, lag, **_fields(draw, meaning, at)))
    return in_order(events)
