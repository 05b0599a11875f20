"""A job that should run and does not: what was planned, what nobody meant, and what was expected by name."""

import pytest

from detectors.detector import Detector
from detectors.events.event import Sample
from detectors.incident import Finding, Transition
from tests.unit.detectors.story import HOUR, JOB, MINUTE, OTHER, SECOND, Followed, Story
from tests.unit.detectors.streams import START

KIND = "job_missing"


class Job(Story):
    """A job that runs, and what happens to it."""

    def ran(self, minutes: int, job: str = JOB) -> "Job":
        """It runs for so long, with a checkpoint each minute."""
        return self.job(job=job).runs(job=job).gap("10 s").checkpoints(minutes, every="1 min", job=job)

    def cancelled(self, job: str = JOB) -> "Job":
        """Someone cancels it; the dispatcher writes a second line about it."""
        self.state("CANCELLING", job=job).gap("100 ms").state("CANCELED", "CANCELLING", job=job)
        return self.line("job_ended", job=job, state="CANCELED").gap("100 ms")

    def submitted(self, job: str) -> "Job":
        """It is submitted under this id, and runs at once."""
        return self.line("job_initializing", job=job, name="orders").gap("1 s").runs(job=job)

    def sampled(self, minutes: int, job: str, *others: Sample) -> "Job":
        """Scrapes each half minute show tasks of the job, if any, and the JobManager."""
        for _ in range(2 * minutes):
            tasks = [Sample("records_in", {"job_id": job, "job_name": "orders", "tm_id": "t"}, 1.0)] if job else []
            self.scrape(*tasks, Sample("jm_heap_used", {"host": "jm"}, 1e8), *others).gap("30 s")
        return self

    def words(self, until: str = "1 h") -> list[tuple[str, str]]:
        """When it opens and resolves; without data an open incident becomes stale, too."""
        return [(t.transition, t.severity) for t in self.transitions(until) if t.transition in ("opened", "resolved")]


def job(*more: str) -> Job:
    return Job(KIND, *more)


def of(transitions: list[Transition]) -> Finding:
    return next(f for f in transitions[0].findings if f.kind == KIND)


# Healthy


def test_a_job_that_is_stopped_with_a_savepoint_and_rescaled_is_planned() -> None:
    history = job().ran(10).checkpoint(kind="SavepointType{name='Suspend Savepoint'}").gap("1 s")
    assert history.state("FINISHED").submitted(OTHER).ran(30, OTHER).opened("2 h") == []


def test_a_bounded_job_that_finishes_is_done() -> None:
    assert job().ran(30).state("FINISHED").line("job_ended", job=JOB, state="FINISHED").opened("2 h") == []


@pytest.mark.parametrize("pause", ["10 s", "5 min", "9 min"])
def test_a_job_that_is_cancelled_and_submitted_again_is_planned(pause: str) -> None:
    assert job().ran(10).cancelled().gap(pause).submitted(OTHER).opened("3 h") == []


def test_a_job_whose_name_reads_otherwise_in_its_metrics_is_the_same_one_when_submitted_again() -> None:
    history = job().job("orders-eu").runs()
    measured = {"job_name": "orders_eu", "tm_id": "t"}
    for at in range(30, 1_200, 30):
        history.scrape(Sample("records_in", {"job_id": JOB, **measured}, 1.0), at=at * SECOND)
    history.at("20 min").state("CANCELLING").gap("100 ms").state("CANCELED", "CANCELLING")
    history.gap("1 min").line("job_initializing", job=OTHER, name="orders-eu").gap("1 s").runs(job=OTHER)
    for at in range(1_290, 2_700, 30):
        history.scrape(Sample("records_in", {"job_id": OTHER, **measured}, 1.0), at=at * SECOND)
    assert history.opened("45 min") == []


def test_a_cancelled_job_whose_next_run_only_metrics_show_is_planned() -> None:
    assert job().ran(10).cancelled().gap("1 min").sampled(30, OTHER).opened("45 min") == []


def test_a_job_that_was_only_tried_out_is_not_missed() -> None:
    assert job().ran(3).cancelled().opened("2 h") == []


def test_a_job_that_fails_is_not_this_kinds() -> None:
    assert job().ran(10).state("FAILING").state("FAILED", "FAILING").opened("2 h") == []


def test_a_cluster_that_ends_with_its_cancelled_job_was_meant_to() -> None:
    history = job().ran(10).cancelled().gap("1 s").line("cluster_ending", what="X", status="CANCELED")
    assert history.opened("2 h") == []


def test_a_job_that_a_new_jobmanager_recovers_under_its_id_runs() -> None:
    history = job().ran(10).state("SUSPENDED").gap("30 s").by("jm-2").line("leader_granted").gap("1 s")
    history.line("job_initializing", job=JOB, name="orders").gap("1 s").runs().line("leader_granted")
    assert history.opened("2 h") == []


def test_a_job_without_checkpoints_and_metrics_may_be_there_after_a_failover() -> None:
    assert job().runs().gap("30 min").line("leader_granted").opened("2 h") == []


def test_a_job_that_needs_a_while_to_begin_is_healthy() -> None:
    history = job().line("job_initializing", job=JOB, name="orders").gap("2 min").state("CREATED", "INITIALIZING")
    assert history.gap("4 min").runs().opened("2 h") == []


def test_tasks_that_are_measured_show_that_it_runs_although_the_line_was_lost() -> None:
    assert job().line("job_initializing", job=JOB, name="orders").gap("1 min").sampled(30, JOB).opened("45 min") == []


def test_metrics_that_stop_show_no_missing_job() -> None:
    assert job().sampled(30, JOB).sampled(60, "").opened("2 h") == []


# Missing


def test_a_job_that_is_cancelled_and_not_submitted_again_is_a_warning() -> None:
    transitions = job().ran(10).cancelled().transitions("22 min")
    assert [(t.transition, t.severity) for t in transitions] == [("opened", "warning")]
    assert of(transitions).summary == "job orders does not run: it was CANCELED 10 min ago"
    assert transitions[0].at - START >= 20 * MINUTE
    assert transitions[0].job_id == JOB


@pytest.mark.parametrize("how", ["line", "metrics", "checkpoint"])
def test_it_is_over_when_a_job_of_the_name_runs(how: str) -> None:
    history = job().ran(10).cancelled().gap("20 min")
    if how == "metrics":
        history.sampled(5, OTHER)
    else:
        history.line("job_initializing", job=OTHER, name="orders").gap("1 s")
        history.runs(job=OTHER) if how == "line" else history.checkpoint(job=OTHER)
    assert history.words() == [("opened", "warning"), ("resolved", "warning")]


def test_another_job_does_not_end_it() -> None:
    history = job().ran(10).cancelled().gap("20 min").runs(job=OTHER, name="payments")
    assert history.words() == [("opened", "warning")]


def test_after_a_day_it_was_removed_on_purpose() -> None:
    transitions = job().ran(10).cancelled().gap("24 h").sampled(40, "").transitions("26 h")
    assert transitions[-1].transition == "resolved"
    assert transitions[-1].reason == "it has not been started again, so it was removed on purpose"
    assert len([t for t in transitions if t.transition == "opened"]) == 1


def test_a_jobmanager_that_comes_back_without_its_job_is_reported() -> None:
    history = job().ran(10).sampled(2, JOB).gap("10 s").by("jm-2").line("leader_granted").gap("1 s").sampled(30, "")
    transitions = history.transitions("40 min")
    assert [(t.transition, t.severity) for t in transitions] == [("opened", "warning")]
    assert "a JobManager leads again since 10 min" in of(transitions).summary


def test_what_taskmanagers_still_export_of_it_for_a_minute_does_not_hide_it() -> None:
    history = job().ran(10).by("jm-2").line("leader_granted").gap("1 s").sampled(1, JOB).sampled(30, "")
    assert history.words() == [("opened", "warning")]


def test_while_no_data_arrives_a_job_is_not_missing() -> None:
    history = job().ran(10).by("jm-2").line("leader_granted").gap("1 s").sampled(3, "")
    assert history.opened("2 h") == []


@pytest.mark.parametrize("state", ["CREATED", "INITIALIZING", "RECONCILING"])
def test_a_job_that_does_not_begin_to_run_is_reported(state: str) -> None:
    history = job().state(state, "INITIALIZING")
    transitions = history.transitions("6 min")
    assert of(transitions).summary == f"job orders does not run: it has been {state} for 5 min"
    assert history.gap("10 min").runs().words() == [("opened", "warning"), ("resolved", "warning")]


def test_metrics_of_the_jobmanager_about_it_do_not_show_that_it_runs() -> None:
    history = job().state("CREATED", "INITIALIZING").gap("1 s")
    history.sampled(10, "", Sample("full_restarts", {"job_id": JOB, "job_name": "orders"}, 0.0))
    assert history.words("12 min") == [("opened", "warning")]


@pytest.mark.parametrize("state", ["FAILED", "CANCELED", "FINISHED"])
def test_it_is_over_when_a_job_that_could_not_begin_ends(state: str) -> None:
    history = job().state("CREATED", "INITIALIZING").gap("10 min").state(state, "CREATED")
    assert history.words() == [("opened", "warning"), ("resolved", "warning")]


def test_the_same_lines_again_change_nothing() -> None:
    history = job().ran(10).cancelled()
    once = history.transitions("1 h")
    assert [t.summary for t in history.sent_again("20 s").transitions("1 h")] == [t.summary for t in once]


def test_a_lost_jobmanager_explains_that_its_job_is_missing() -> None:
    history = job("jobmanager_lost").ran(10).line("jm_fatal").gap("40 s").by("jm-2").line("leader_granted").gap("1 s")
    transitions = history.sampled(20, "").transitions("30 min")
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert (transitions[-1].cause, KIND in {f.kind for f in transitions[-1].findings}) == ("jobmanager_lost", True)


# Expected


class Expected(Followed, Job):
    """A cluster in which jobs of this name must always run."""

    def __init__(self, pattern: str = "orders") -> None:
        Followed.__init__(self, KIND, expected=[pattern])
        self.detector: Detector = self.detector

    def due(self, last: int, every: int = 15 * SECOND) -> list[tuple[str, str]]:
        """The findings while deadlines are met until then: opened or closed, and how severe."""
        found: list[Finding] = self.findings()
        for at in range(self._now, last, every):
            self.until(at)
            found += self.findings()
        return [("closed" if f.closed_at else "opened", f.severity) for f in found]


def test_an_expected_job_that_runs_is_healthy_whether_lines_or_samples_show_it() -> None:
    assert Expected().ran(30).due(3 * HOUR) == []
    assert Expected().sampled(60, JOB).due(61 * MINUTE) == []


def test_an_expected_job_that_was_never_seen_is_critical_while_the_cluster_reports() -> None:
    assert Expected().sampled(9, "").due(9 * MINUTE) == []
    assert Expected().sampled(11, "").due(12 * MINUTE) == [("opened", "critical")]
    assert Expected().sampled(2, "").due(HOUR) == []


def test_an_expected_job_that_finished_and_does_not_run_again_is_critical() -> None:
    cluster = Expected().ran(10).state("FINISHED").sampled(15, "")
    assert cluster.due(30 * MINUTE) == [("opened", "critical")]
    assert cluster.submitted(OTHER).due(40 * MINUTE) == [("closed", "critical")]


def test_an_expected_job_known_from_metrics_alone_is_missed_when_they_stop() -> None:
    assert Expected().sampled(10, JOB).sampled(12, "").due(23 * MINUTE) == [("opened", "critical")]


def test_any_job_that_matches_the_pattern_is_enough() -> None:
    cluster = Expected("ord*").ran(10).runs(job=OTHER, name="orders-v2").gap("1 s").state("CANCELED").sampled(30, "")
    assert cluster.due(HOUR) == []


def test_a_cancelled_job_that_is_expected_is_reported_once() -> None:
    cluster = Expected().ran(10).cancelled().sampled(40, "")
    assert cluster.due(HOUR) == [("opened", "critical")]


def test_a_cluster_that_was_away_has_the_whole_time_to_start_its_jobs() -> None:
    cluster = Expected().ran(10).state("FINISHED").line("cluster_ending", what="X", status="SUCCEEDED").gap("3 h")
    assert cluster.sampled(5, "").due(3 * HOUR + 15 * MINUTE) == []
