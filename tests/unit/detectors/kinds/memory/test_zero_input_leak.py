"""A leak without input: what proves it, and all that looks like it."""

from detectors.events.event import Sample
from detectors.incident import Transition
from tests.unit.detectors.story import HOUR, JOB, MINUTE, SECOND, Story
from tests.unit.detectors.streams import START

LABEL = "tm_1:6122_aaaaaa"
MB = 1_000_000


class Leak(Story):
    """A job that reads `orders`, as the metrics of its JobManager and of one TaskManager show it."""

    def reader(
        self, at: int, commits: int, offset: int = -1, failed: int = 0, owns: bool = True, subtask: str = "0"
    ) -> "Leak":
        """A reader's metrics; `owns`: it has a split."""
        labels = {"job_id": JOB, "tm_id": LABEL, "operator_id": "s", "operator_name": "Source"}
        labels |= {"subtask_index": subtask}
        split = {**labels, "topic": "orders", "partition": subtask}
        offsets = [Sample("current_offset", split, offset), Sample("committed_offset", split, offset)] if owns else []
        counts = Sample("commits_succeeded", labels, commits), Sample("commits_failed", labels, failed)
        return self.scrape(*offsets, *counts, at=at, host="tm-1")

    def checkpoints_so_far(self, at: int, completed: int) -> "Leak":
        """The JobManager's metrics of the job."""
        labels = {"job_id": JOB}
        return self.scrape(Sample("completed_checkpoints", labels, completed), Sample("restarts", labels, 0), at=at)

    def idle(self, scrapes: int = 40, offset: int = -1, owns: bool = True) -> "Leak":
        """A scrape every 15 s, a checkpoint every 5 s, not one commit."""
        for n in range(scrapes):
            self.checkpoints_so_far(n * 15_000, 3 * n).reader(n * 15_000 + 3_000, 0, offset, owns=owns)
        return self

    def memory(
        self, minute: int, used: float, old: int, records: int = 0, collector: str = "G1_Old_Generation"
    ) -> "Leak":
        """A TaskManager's heap (MB in use of 1000), its collections and the records of its only task."""
        labels = {"tm_id": LABEL}
        return self.scrape(
            Sample("heap_max", labels, 1000 * MB),
            Sample("heap_used", labels, used * MB),
            Sample("gc_count", {**labels, "collector": collector}, old),
            Sample("records_in", {**labels, "job_id": JOB, "task_id": "t", "subtask_index": "0"}, records),
            at=minute * MINUTE,
            host="tm-1",
        )

    def sawtooth(self, growth: float, records: int = 0) -> "Leak":
        """Six hours of teeth of ten minutes and 200 MB, on a floor that grows by so many MB an hour."""
        for m in range(6 * 60):
            self.memory(m, 100 + growth * m / 60 + 20 * (m % 10), m // 30, records * m)
        return self

    def reported(self) -> list[Transition]:
        """The transitions until two minutes after the last event."""
        return self.transitions(after="2 min")


def job() -> Leak:
    return Leak("zero_input_leak")


def test_checkpoints_complete_and_a_reader_with_a_split_commits_nothing() -> None:
    transitions = job().idle().reported()
    assert [(t.transition, t.severity) for t in transitions] == [("opened", "warning")]
    assert transitions[0].findings[0].entity["topic"] == "orders"


def test_each_of_many_readers_has_its_history() -> None:
    history = job()
    for n in range(20):
        history.checkpoints_so_far(n * 15_000, 3 * n)
        for subtask in range(600):
            history.reader(n * 15_000 + 3_000, 0, subtask=str(subtask))
    assert any(t.summary.startswith("600 Kafka readers of orders") for t in history.reported())


def test_a_reader_without_a_split_leaks_nothing() -> None:
    assert job().idle(owns=False).reported() == []


def test_a_quiet_night_after_records_have_been_read_is_no_leak() -> None:
    assert job().idle(offset=700).reported() == []


def test_where_offset_commit_is_disabled_nothing_is_missing() -> None:
    assert job().line("offset_commit_disabled", 0).idle().reported() == []


def test_a_connector_that_is_fixed_leaks_nothing() -> None:
    assert job().line("process_version", 0, version="1.18.1", what="JobManager").idle().reported() == []


def test_commits_that_fail_are_no_leak() -> None:
    history = job()
    for n in range(40):
        history.checkpoints_so_far(n * 15_000, 3 * n).reader(n * 15_000 + 3_000, 0, failed=n)
    assert history.reported() == []


def test_a_count_of_checkpoints_that_is_older_than_the_readers_sample_does_not_count_twice() -> None:
    """One commit a checkpoint, ten a second; the JobManager is scraped once a minute, the reader just before it."""
    history = job()
    for n in range(20):
        history.reader((n + 1) * MINUTE - 100, 600 * (n + 1)).checkpoints_so_far(n * MINUTE, 600 * n)
    assert history.reported() == []


def test_a_commit_ends_it() -> None:
    history = job().idle().reader(605_000, 1, offset=0).reader(620_000, 2, offset=0)
    assert history.reported()[-1].findings[0].closed_because != ""


def test_the_end_of_the_job_ends_it() -> None:
    history = job().idle().line("job_ended", 610 * SECOND, job=JOB, state="CANCELED")
    assert history.reported()[-1].findings[0].closed_because == "the job is CANCELED"


def test_a_floor_that_rises_without_input_and_outlives_old_collections_is_a_leak_by_itself() -> None:
    transitions = job().sawtooth(growth=30).reported()
    assert [t.transition for t in transitions][:1] == ["opened"]
    forecast = transitions[0].forecast
    assert forecast is not None
    assert forecast.earliest <= START + (1000 - 100) // 30 * HOUR <= forecast.latest


def test_a_flat_floor_is_none() -> None:
    assert job().sawtooth(growth=0).reported() == []


def test_growth_that_the_input_explains_is_none() -> None:
    assert job().sawtooth(growth=30, records=1000).reported() == []


def test_a_floor_of_young_collections_that_an_old_one_takes_down_again_is_none() -> None:
    """Old garbage: 300 MB an hour up, back every hour, and the old collection is counted then."""
    history = job()
    for m in range(360):
        history.memory(m, 100 + 5 * (m % 60) + 20 * (m % 10), m // 60, collector="PS_MarkSweep")
    assert history.reported() == []


def test_lows_that_rise_for_a_dozen_cycles_of_g1_are_a_leak_well_below_a_full_heap() -> None:
    """A cache or timers: G1 counts no old collection, and there is no Kafka reader."""
    history = job()
    for m in range(150):
        history.memory(m, 150 + 3 * m + 25 * (m % 6), 0)
    transitions = history.reported()
    assert [t.transition for t in transitions][:1] == ["opened"]
    floor = transitions[0].series
    assert floor is not None
    assert floor.points[-1][1] < 450 * MB, "well below a full heap"


def test_a_heap_that_fills_up_after_a_start_and_levels_off_is_none() -> None:
    for hours in (0.25, 1, 4):
        history = job()
        for m in range(600):
            history.memory(m, 100 + 250 * (1 - 0.5 ** (m / 60 / hours)) + 25 * (m % 6), 0)
        assert history.reported() == [], hours


def test_garbage_that_g1_frees_at_nearly_half_a_heap_is_none() -> None:
    history = job()
    for m in range(1_500):
        history.memory(m, 100 + 0.5 * (m % 700) + 25 * (m % 6), 0)
    assert history.reported() == []


def test_meaning_and_memory_together_are_critical_and_one_incident() -> None:
    history = job().sawtooth(growth=30)
    for n in range(6 * 60):
        history.checkpoints_so_far(n * MINUTE + 10_000, 6 * n).reader(n * MINUTE + 20_000, 0)
    transitions = history.reported()
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert (transitions[0].severity, transitions[-1].severity) == ("warning", "critical")


def test_a_new_process_under_the_same_name_begins_a_new_floor() -> None:
    """Each restart gives the memory back; the collectors' counters begin anew."""
    history = job()
    for m in range(360):
        history.memory(m, 100 + 1.5 * (m % 90) + 20 * (m % 10), m % 90 // 10, collector="PS_Scavenge")
    assert history.reported() == []
