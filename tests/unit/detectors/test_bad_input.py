"""What goes wrong on the way to flinkwatch, and in Flink's own counting: never an error, never a false incident.

Each test takes healthy scenarios (nothing may be reported of them, however badly they arrive), and where that proves
more, also those with incidents (the same must be reported of them).
"""

import random
from collections.abc import Callable, Iterable

import msgspec
import pytest

from detectors import DETECTORS
from detectors.events.event import Event, LogEvent, MetricEvent
from detectors.events.vocabulary.match import EVENT_TYPES
from detectors.events.vocabulary.metric_names import read_prometheus, read_telegraf
from tests.recorded import NAMES, events, truth
from tests.unit.detectors.streams import METRICS, START, alone, fields_of, in_order, log, metric, run

HEALTHY = tuple(n for n in NAMES if not truth(n))
KINDS = tuple(d.kind for d in DETECTORS)
JOB = "a" * 32
MINUTE = 60_000
HOUR = 60 * MINUTE
COUNTERS = frozenset(
    {
        *("completed_checkpoints", "failed_checkpoints", "restarts", "full_restarts", "records_in", "records_out"),
        *("commits_succeeded", "commits_failed", "operator_records_in", "operator_records_out", "gc_count", "gc_time"),
    }
)

healthy = pytest.mark.parametrize("name", HEALTHY)


def reported(stream: Iterable[Event]) -> list[str]:
    """What is reported of a stream, in words short enough to be read in a failure."""
    return [f"{t.transition} {t.cause} {t.cluster}: {t.summary}" for t in run(in_order(stream))]


def with_values(stream: Iterable[Event], change: Callable[[str, float], float]) -> list[Event]:
    """The stream with every sample's value changed by name."""
    found: list[Event] = []
    for event in stream:
        if isinstance(event, MetricEvent):
            samples = [msgspec.structs.replace(s, value=change(s.name, s.value)) for s in event.samples]
            found.append(msgspec.structs.replace(event, samples=samples))
        else:
            found.append(event)
    return found


def halves(name: str) -> tuple[list[Event], list[Event]]:
    whole = in_order(events(name))
    middle = (whole[0].timestamp + whole[-1].timestamp) // 2
    return [e for e in whole if e.timestamp < middle], [e for e in whole if e.timestamp >= middle]


@healthy
def test_counters_that_begin_anew_are_no_incident(name: str) -> None:
    """A job that restarts counts from 0: every counter drops at once and rises as before."""
    before, after = halves(name)
    first: dict[tuple[str, str], float] = {}

    def anew(event: Event) -> Event:
        if not isinstance(event, MetricEvent):
            return event
        samples = []
        for sample in event.samples:
            key = (sample.name, str(sorted(sample.labels.items())))
            low = first.setdefault(key, sample.value) if sample.name in COUNTERS else 0.0
            samples.append(msgspec.structs.replace(sample, value=max(sample.value - low, 0.0)))
        return msgspec.structs.replace(event, samples=samples)

    # Commits and records that stand still while checkpoints complete mean something: these keep their values.
    assert reported([*before, *map(anew, after)]) == []


@healthy
@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_a_sample_in_twenty_that_is_negative_or_zero_is_no_incident(name: str, value: float) -> None:
    chance = random.Random(name)
    assert reported(with_values(events(name), lambda _, v: value if chance.random() < 0.05 else v)) == []


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "1e300", "-9.223372036854775808E18"])
def test_a_value_that_nothing_can_mean_is_no_sample(text: str) -> None:
    assert read_prometheus(f"flink_taskmanager_Status_JVM_Memory_Heap_Used {text}\n") == []
    if "e" in text.lower():
        fields = b'{"flink_taskmanager_Status_JVM_Memory_Heap_Used": %s}' % text.encode()
        assert read_telegraf(b'{"name": "prometheus", "fields": %s, "tags": {}}' % fields)[0] == []


@healthy
def test_scrapes_that_come_one_sample_a_record_report_the_same(name: str) -> None:
    whole: list[Event] = []
    for event in events(name):
        if isinstance(event, MetricEvent):
            whole += [msgspec.structs.replace(event, samples=[s]) for s in event.samples]
        else:
            whole.append(event)
    numbered = [msgspec.structs.replace(e, offset=i) for i, e in enumerate(whole)]
    assert reported(numbered) == []


@healthy
def test_restarts_that_change_attempt_ids_are_no_incident(name: str) -> None:
    """After half of the recording every attempt is another one, as after a planned restart whose lines were lost."""
    before, after = halves(name)

    def renamed(event: Event) -> Event:
        if isinstance(event, LogEvent) and "attempt" in event.fields:
            fields = {**event.fields, "attempt": event.fields["attempt"][::-1]}
            return msgspec.structs.replace(event, fields=fields)
        return event

    assert reported([*before, *map(renamed, after)]) == []


@healthy
def test_duplicates_and_disorder_together_are_no_incident(name: str) -> None:
    """Each source is late by its own time of up to 5 s; one record in ten comes again within half a minute."""
    for seed in range(3):
        chance = random.Random(seed)
        lags: dict[str, int] = {}
        found: list[Event] = []
        for event in in_order(events(name)):
            at = event.timestamp + lags.setdefault(event.source, chance.randrange(5_000))
            found.append(msgspec.structs.replace(event, timestamp=at))
            if chance.random() < 0.1:
                again = at + chance.randrange(30_000)
                found.append(msgspec.structs.replace(event, timestamp=again, offset=event.offset + 10**6))
        last = max(e.timestamp for e in found if e.offset < 10**6)
        assert reported(e for e in found if e.timestamp <= last) == [], seed


@pytest.mark.parametrize("name", NAMES)
def test_a_cluster_of_the_same_names_and_ids_is_another_cluster(name: str) -> None:
    """The same records under two names report the same of each; a healthy cluster next to them stays healthy."""
    whole = in_order(events(name))
    twins = [msgspec.structs.replace(e, cluster=f"{e.cluster}-twin") for e in whole]
    once = [(t.cluster, t.at, t.transition, t.cause, t.severity, t.summary) for t in run(whole)]
    both = [(t.cluster, t.at, t.transition, t.cause, t.severity, t.summary) for t in run(in_order([*whole, *twins]))]
    assert [t for t in both if not t[0].endswith("-twin")] == once
    assert [(t[0].removesuffix("-twin"), *t[1:]) for t in both if t[0].endswith("-twin")] == once


def _life_of_a_job(start: int, first: int, count: int) -> list[Event]:
    """Submitted, running with a checkpoint a minute, cancelled."""

    def state(before: str, new: str, at: int) -> Event:
        return log("job_state", at, job=JOB, name="orders", before=before, state=new)

    found = [state("CREATED", "RUNNING", start)]
    for n in range(count):
        at = start + 10_000 + n * MINUTE
        fields = {"checkpoint": str(first + n), "job": JOB}
        found.append(log("checkpoint_triggered", at, **fields, type="CHECKPOINT", epoch=str(START + at)))
        found.append(log("checkpoint_completed", at + 1_000, **fields, bytes="1000", duration="1000"))
        found.append(metric("completed_checkpoints", at + 2_000, float(n + 1), job_id=JOB))
        found.append(metric("records_in", at + 2_000, 100.0 * (n + 1), job_id=JOB, tm_id="tm_1", task_name="map"))
    end = start + 10_000 + count * MINUTE
    found += [state("RUNNING", "CANCELLING", end), state("CANCELLING", "CANCELED", end + 100)]
    found.append(log("job_ended", end + 200, job=JOB, state="CANCELED"))
    return found


def test_a_job_id_that_comes_back_begins_anew() -> None:
    """Application mode gives every job the same id: numbers of checkpoints and counters start over each time."""
    lives = [_life_of_a_job(n * HOUR, 1, 30) for n in range(5)]
    # It is away for half an hour after each cancel, which is reported.
    assert [s for s in reported(e for life in lives for e in life) if "job_missing" not in s] == []
    assert reported(e for n in range(5) for e in _life_of_a_job(n * 31 * MINUTE, 1, 30)) == []


@healthy
def test_a_clock_that_is_set_back_in_the_middle_is_no_incident(name: str) -> None:
    """Summer time ends, or NTP steps in: lines and samples are an hour behind, the brokers' time goes on."""
    before, after = halves(name)

    def back(event: Event) -> Event:
        if isinstance(event, LogEvent):
            return msgspec.structs.replace(event, local_time=event.local_time - HOUR)
        return msgspec.structs.replace(event, time=event.time - HOUR)

    assert [s for s in reported([*before, *map(back, after)]) if "clock_skew" not in s] == []


@healthy
def test_brokers_whose_time_runs_back_are_no_incident(name: str) -> None:
    """A producer's timestamps jump back by a minute: records come late by the stream's clock, none is lost."""
    before, after = halves(name)
    late = [msgspec.structs.replace(e, timestamp=e.timestamp - MINUTE) for e in after]
    # What was read before is through: within a batch the engine would sort by these timestamps.
    assert [f"{t.cause}: {t.summary}" for t in run([*before, *late], [len(before)])] == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_detector_fails_on_lines_that_lack_what_they_may_lack(kind: str) -> None:
    """Fields that a wording does not promise are missing; ids are unknown; times and numbers are absurd."""
    event_types = next(d.event_types for d in DETECTORS if d.kind == kind)
    stream: list[Event] = []
    for n, want in enumerate(sorted(METRICS & event_types) * 3):
        for value in (0.0, -1.0, 2.0**53, -(2.0**53)):
            stream.append(metric(want, n * 1_000, value, len(stream)))
            stream.append(metric(want, n * 1_000, value, len(stream), job_id=JOB, tm_id="tm_1", host="h"))
            stream.append(metric(want, n * 1_000 - 10 * HOUR, value, len(stream), job_id="", tm_id="", host=""))
    for n, want in enumerate(sorted(EVENT_TYPES & event_types) * 3):
        for fields in fields_of(want):
            least = {name: "1" for name, optional in fields if not optional}
            stream.append(log(want, n * 1_000, len(stream), **least))
            stream.append(log(want, n * 1_000 - 10 * HOUR, len(stream), "", **least))
            local = msgspec.structs.replace(log(want, n * 1_000, len(stream), **least), local_time=-1)
            stream.append(local)
    run(in_order(stream), until=START + HOUR, published=alone(kind))
