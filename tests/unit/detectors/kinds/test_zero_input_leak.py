"""A leak without input: what proves it, and all that looks like it."""

from collections.abc import Iterable

import msgspec
import pytest

from detectors.events.event import Event, MetricEvent, Sample
from detectors.flink.offset_commits import OffsetCommits
from detectors.incident import Transition
from tests.unit.detectors.streams import START, in_order, log, run

JOB = "a" * 32
TM = "tm-1:6122-aaaaaa"
LABEL = "tm_1:6122_aaaaaa"
MB = 1_000_000


def scrape(at: int, *samples: Sample) -> MetricEvent:
    """Samples taken at once, `at` ms after START."""
    return MetricEvent("c", "m", "tm-1", START + at + 50, START + at, "flink.metrics", 0, at, list(samples))


def reader(
    at: int, commits: int, offset: int = -1, failed: int = 0, owns: bool = True, subtask: str = "0"
) -> MetricEvent:
    """A reader's metrics."""
    labels = {"job_id": JOB, "tm_id": LABEL, "operator_id": "s", "operator_name": "Source", "subtask_index": subtask}
    split = {**labels, "topic": "orders", "partition": subtask}
    offsets = [Sample("current_offset", split, offset), Sample("committed_offset", split, offset)] if owns else []
    return scrape(at, *offsets, Sample("commits_succeeded", labels, commits), Sample("commits_failed", labels, failed))


def count(at: int, completed: int, restarts: int = 0) -> MetricEvent:
    """The JobManager's metrics of the job."""
    return scrape(
        at,
        Sample("completed_checkpoints", {"job_id": JOB}, completed),
        Sample("restarts", {"job_id": JOB}, restarts),
    )


def idle(minutes: int = 10, **more: int | bool) -> list[Event]:
    """A scrape every 15 s, a checkpoint every 5 s, not one commit."""
    found: list[Event] = []
    for n in range(minutes * 4):
        found += [count(n * 15_000, 3 * n), reader(n * 15_000 + 3_000, 0, **more)]  # type: ignore[arg-type]
    return found


def heap(tm: str, minute: int, used: float, records: int = 0) -> MetricEvent:
    """A TaskManager's heap and the records of its only task."""
    labels = {"tm_id": tm}
    task = {**labels, "job_id": JOB, "task_id": "t", "subtask_index": "0"}
    return scrape(
        minute * 60_000,
        Sample("heap_max", labels, 1000 * MB),
        Sample("heap_used", labels, used),
        Sample("gc_count", {**labels, "collector": "G1_Old_Generation"}, minute // 30),
        Sample("records_in", task, records),
    )


def sawtooth(hours: int, growth: float, records: int = 0) -> list[Event]:
    """A tooth of ten minutes and 200 MB on a floor that grows by so many MB an hour."""
    minutes = range(hours * 60)
    return [heap(LABEL, m, MB * (100 + growth * m / 60 + 20 * (m % 10)), records * m) for m in minutes]


def causes(stream: Iterable[Event]) -> list[Transition]:
    """What is said of a leak, until two minutes after the last event."""
    events = in_order(stream)
    return [t for t in run(events, until=events[-1].timestamp + 120_000) if t.cause == "zero_input_leak"]


def test_checkpoints_complete_and_a_reader_with_a_split_commits_nothing() -> None:
    said = causes(idle())
    assert [(t.transition, t.severity) for t in said] == [("opened", "warning")]
    assert said[0].findings[0].entity["topic"] == "orders"


def test_each_of_many_readers_has_its_history() -> None:
    many = [
        msgspec.structs.replace(reader(n * 15_000 + 3_000, 0, subtask=str(r)), offset=1_000 * n + r)
        for n in range(20)
        for r in range(600)
    ]
    said = causes([*(count(n * 15_000, 3 * n) for n in range(20)), *many])
    assert any(t.summary.startswith("600 readers of orders") for t in said)


def test_a_name_that_no_reader_has_any_more_gives_its_number_to_another() -> None:
    commits = OffsetCommits()
    for n in range(1_000):
        labels = {"job_id": JOB, "tm_id": f"tm-{n}", "operator_name": "Source", "subtask_index": str(n % 2)}
        commits.sampled(Sample("current_offset", {**labels, "topic": f"orders-{n}"}, -1), START + n)
    job = commits.jobs[JOB]
    assert len(job.tms) <= 3
    assert len(job.topics) <= 3
    assert job.on(job.readers.values()) == {"tm-998", "tm-999"}
    assert job.read_by(job.readers.values()) == "orders-998, orders-999"


@pytest.mark.parametrize(
    ("case", "stream"),
    [
        ("a reader without a split", idle(owns=False)),
        ("a quiet night after records have been read", idle(offset=700)),
        ("offset commit is disabled", [log("offset_commit_disabled", 0), *idle()]),
        ("a connector that is fixed", [log("process_version", 0, version="1.18.1", what="JobManager"), *idle()]),
    ],
)
def test_it_is_no_leak(case: str, stream: list[Event]) -> None:
    assert causes(stream) == [], case


def test_commits_that_fail_are_no_leak() -> None:
    stream = [e for n in range(40) for e in (count(n * 15_000, 3 * n), reader(n * 15_000 + 3_000, 0, failed=n))]
    assert causes(stream) == []


def test_a_count_of_checkpoints_that_is_older_than_the_readers_sample_does_not_count_twice() -> None:
    """One commit a checkpoint, ten a second; the JobManager is scraped once a minute, the reader just before it."""
    stream = [
        e for n in range(20) for e in (reader(n * 60_000 - 100 + 60_000, 600 * (n + 1)), count(n * 60_000, 600 * n))
    ]
    assert causes(stream) == []


def test_a_commit_ends_it() -> None:
    stream = [*idle(), reader(605_000, 1, offset=0), reader(620_000, 2, offset=0)]
    assert causes(stream)[-1].findings[0].closed_because != ""


def test_the_end_of_the_job_ends_it() -> None:
    stream = [*idle(), log("job_ended", 610_000, job=JOB, state="CANCELED")]
    assert causes(stream)[-1].findings[0].closed_because == "the job is CANCELED"


def test_a_floor_that_rises_without_input_and_outlives_old_collections_is_a_leak_by_itself() -> None:
    said = causes(sawtooth(6, growth=30))
    assert [t.transition for t in said][:1] == ["opened"]
    forecast = said[0].forecast
    assert forecast is not None
    assert forecast.earliest <= START + (1000 - 100) / 30 * 3_600_000 <= forecast.latest


def test_a_flat_floor_is_none() -> None:
    assert causes(sawtooth(6, growth=0)) == []


def test_growth_that_the_input_explains_is_none() -> None:
    assert causes(sawtooth(6, growth=30, records=1000)) == []


def test_a_floor_of_young_collections_that_an_old_one_takes_down_again_is_none() -> None:
    """Old garbage: 300 MB an hour up, back every hour, and the old collection is counted then."""
    stream = []
    for m in range(360):
        labels = {"tm_id": LABEL}
        stream.append(heap(LABEL, m, MB * (100 + 5 * (m % 60) + 20 * (m % 10))))
        stream[-1].samples[2] = Sample("gc_count", {**labels, "collector": "PS_MarkSweep"}, m // 60)
    assert causes(stream) == []


def test_meaning_and_memory_together_are_critical_and_one_incident() -> None:
    stream = [*sawtooth(6, growth=30)]
    for n in range(6 * 60):
        stream += [count(n * 60_000 + 10_000, 6 * n), reader(n * 60_000 + 20_000, 0)]
    said = causes(stream)
    assert {t.incident for t in said} == {said[0].incident}
    assert (said[0].severity, said[-1].severity) == ("warning", "critical")


def test_a_new_process_under_the_same_name_begins_a_new_floor() -> None:
    """Each restart gives the memory back; the collectors' counters begin anew."""
    stream = []
    for m in range(360):
        stream.append(heap(LABEL, m, MB * (100 + 1.5 * (m % 90) + 20 * (m % 10))))
        stream[-1].samples[2] = Sample("gc_count", {"tm_id": LABEL, "collector": "PS_Scavenge"}, m % 90 // 10)
    assert causes(stream) == []
