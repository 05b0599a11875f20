"""Late acknowledgements: what proves them, where they lie, and advice: what helps one cause may harm another."""

import pytest

from detectors.events.event import Sample
from detectors.incident import Finding
from detectors.patterns.keep_state import KEEP_STATE
from tests.unit.detectors.story import JOB, MINUTE, SECOND, Story
from tests.unit.test_advice import first_danger

TM, OTHER_TM = "tm-2:6122-bbbbbb", "tm-1:6122-aaaaaa"
AT = 10 * MINUTE


class Job(Story):
    """A job whose checkpoints expire at AT and later."""

    def late(self, count: int, number: int = 14, after: int = SECOND, apart: int = 0, tm: str = TM) -> "Job":
        """So many acknowledgements of a checkpoint, the first one `after` AT, from subtasks on one TaskManager."""
        fields = {"checkpoint": str(number), "job": JOB, "tm": tm, "host": tm.partition(":")[0]}
        for n in range(count):
            self.line("checkpoint_acked_late", AT + after + n * apart, attempt=f"{tm}_{number}_{n}", **fields)
        return self

    def reads(self, **rates: int) -> "Job":
        """Records that TaskManagers read each second, scraped for two minutes before AT."""
        for at in range(AT - 2 * MINUTE, AT, 30 * SECOND):
            for n, (tm, rate) in enumerate(rates.items()):
                labels = {"job_id": JOB, "tm_id": tm, "task_id": "t", "subtask_index": str(n)}
                self.scrape(Sample("records_in", labels, rate * at // 1000), at=at)
        return self

    def finding(self) -> Finding:
        """The cause in the last transition of two minutes."""
        return self.transitions(AT + 2 * MINUTE)[-1].findings[0]


def job(expired: int = 14) -> Job:
    return Job("late_barrier_acks").runs(0).expired(expired, AT)


def tm_label(tm: str) -> str:
    return tm.replace("-", "_")


def test_three_late_acknowledgements_of_one_checkpoint_name_their_taskmanager() -> None:
    assert job().late(2).opened() == []
    history = job().late(3)
    assert [(t.transition, t.cause, t.severity) for t in history.transitions(AT + MINUTE)][:1] == [
        ("opened", "late_barrier_acks", "warning")
    ]
    finding = history.finding()
    assert (finding.entity["tm_id"], finding.entity["host"], finding.entity["checkpoint"]) == (TM, "tm-2", "14")
    assert finding.confidence == "sure"
    assert finding.summary.startswith("3 subtasks acknowledged checkpoint 14 up to 1 s after it expired, all on tm-2")


def test_a_place_is_named_only_when_most_late_subtasks_are_there() -> None:
    finding = job().late(2).late(2, tm=OTHER_TM).finding()
    assert (finding.entity["tm_id"], finding.confidence) == ("", "fair")
    assert job().late(4).late(1, tm=OTHER_TM).finding().entity["tm_id"] == TM
    assert "80% of them on tm-2" in job().late(4).late(1, tm=OTHER_TM).finding().summary


def test_an_acknowledgement_that_is_reported_twice_counts_once() -> None:
    assert job().late(2).late(2, after=3 * SECOND).opened() == []


def test_an_acknowledgement_long_after_the_expiry_does_not_belong_to_it() -> None:
    assert job().late(3, after=9 * MINUTE).opened() == ["late_barrier_acks"]
    assert job().late(3, after=11 * MINUTE).opened() == []


def test_an_acknowledgement_of_a_checkpoint_that_did_not_expire_is_nothing() -> None:
    assert job().late(3, number=13).opened() == []


def test_few_of_each_of_two_checkpoints_prove_it_too_and_more_are_critical() -> None:
    history = job().late(1).expired(15, AT + 30 * SECOND).late(1, 15, after=31 * SECOND)
    assert [t.severity for t in history.transitions(AT + MINUTE)] == ["warning"]
    history.expired(16, AT + 60 * SECOND).late(1, 16, after=61 * SECOND)
    assert [t.severity for t in history.transitions(AT + 2 * MINUTE)][-1] == "critical"
    assert "; 2 checkpoints affected so far" in history.finding().summary


@pytest.mark.parametrize("notice_after", [-2 * SECOND, 2 * SECOND])
def test_one_abort_notice_names_the_taskmanager_that_wrote_it_before_or_after_the_expiry(notice_after: int) -> None:
    history = job().by("tm-2").line("tm_started", 0, tm=TM)
    history.line("checkpoint_abort_noticed", AT + notice_after, checkpoint="14")
    assert history.opened() == ["late_barrier_acks"]
    assert history.finding().entity["tm_id"] == TM
    assert "barriers wait behind data" in history.finding().summary


def test_a_notice_of_another_checkpoint_is_nothing() -> None:
    history = job().by("tm-2").line("tm_started", 0, tm=TM)
    assert history.line("checkpoint_abort_noticed", AT + SECOND, checkpoint="13").opened() == []


def test_it_ends_after_two_checkpoints_in_a_row() -> None:
    history = job().late(3).completed(15, AT + MINUTE)
    assert [t.transition for t in history.transitions(AT + 4 * MINUTE)] == ["opened"]
    history.completed(16, AT + 2 * MINUTE)
    transitions = history.transitions(AT + 4 * MINUTE)
    assert [t.transition for t in transitions] == ["opened", "resolved"]
    assert transitions[-1].reason == "2 checkpoints in a row completed, the last is 16"


def test_an_expiry_between_two_completed_checkpoints_does_not_end_it() -> None:
    history = job().late(3).completed(15, AT + MINUTE).expired(16, AT + 90 * SECOND).completed(17, AT + 2 * MINUTE)
    assert "resolved" not in [t.transition for t in history.transitions(AT + 4 * MINUTE)]


@pytest.mark.parametrize("state", ["CANCELED", "FINISHED", "FAILED", "SUSPENDED"])
def test_it_ends_with_the_job(state: str) -> None:
    transitions = job().late(3).state(state, at=AT + MINUTE).transitions(AT + 3 * MINUTE)
    assert (transitions[-1].transition, transitions[-1].reason) == ("resolved", f"the job is {state}")


def test_numbers_that_begin_anew_after_a_restore_are_other_checkpoints() -> None:
    history = job().late(3).line("job_restored", AT + 20 * SECOND, job=JOB)
    history.expired(2, AT + 40 * SECOND).late(3, 2, after=41 * SECOND, tm=OTHER_TM)
    entity = history.finding().entity
    assert (entity["tm_id"], entity["checkpoint"]) == (OTHER_TM, "2")


def test_key_skew_is_not_answered_with_a_restart() -> None:
    finding = job().reads(**{tm_label(TM): 550, tm_label(OTHER_TM): 50}).late(4).finding()
    assert "reads 92% of the job's input (fair share 50%)" in finding.summary
    assert "skewed" in finding.advice
    assert TM in finding.advice
    assert "restart" not in finding.advice
    assert first_danger(finding.advice) == ""


def test_a_slow_host_is_left_only_after_the_state_is_safe() -> None:
    advice = job().reads(**{tm_label(TM): 50, tm_label(OTHER_TM): 50}).late(4).finding().advice
    assert advice.startswith(KEEP_STATE)
    assert f"/jobs/{JOB}/checkpoints/config" in advice
    assert "move the job" in advice
    assert "skewed" not in advice


def test_a_slow_upload_is_neither() -> None:
    finding = job().reads(**{tm_label(TM): 550, tm_label(OTHER_TM): 50}).late(4, apart=5 * SECOND).finding()
    assert "state upload is slow" in finding.summary
    assert "checkpoint storage" in finding.advice
    assert "move the job" not in finding.advice
    assert "skewed" not in finding.advice
