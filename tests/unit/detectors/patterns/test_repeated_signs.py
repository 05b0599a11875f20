"""What the kinds that are recognised by repeated failures of a job share, shown by one of them."""

import pytest

from detectors.incident import Finding
from tests.unit.detectors.story import HOUR, JOB, MINUTE, OTHER, SECOND, Followed, Thrown, follow

WORDY: Thrown = ("java.io.IOException", "Timeout triggered when requesting exclusive buffers", "")
FEW: Thrown = ("java.io.IOException", "Insufficient number of network buffers: required 65, but only 12 available.", "")
LAG = 100
"""What a line needs to reach Kafka. A line of a stack trace has no time of its own, so a sign is so much later."""


def short() -> Followed:
    return follow("network_buffers_exhausted").runs(0)


def sign(history: Followed, at: int, thrown: Thrown = FEW) -> list[Finding]:
    return history.task_failed(thrown, at=at).findings()


def closed(history: Followed) -> list[Finding]:
    return [f for f in history.findings() if f.closed_at]


def completed(history: Followed, at: int, job: str = JOB) -> list[Finding]:
    return closed(history.completed(at // SECOND, at, job=job))


def test_signs_within_a_second_are_one_and_the_longest_text_stays() -> None:
    history = short()
    (opened,) = sign(history, 0)
    (better,) = sign(history, 500, WORDY)
    assert sign(history, 900) == []
    (again,) = sign(history, 10 * SECOND)
    assert "65" in opened.summary
    assert (
        better.summary
        == "job orders cannot run for lack of network buffers: a task did not get its exclusive buffers in time"
    )
    assert again.summary.endswith("2 times in 10 s: a task did not get its exclusive buffers in time")
    assert (again.since, len(again.evidence)) == (opened.since, 4)


@pytest.mark.parametrize(("apart", "calm"), [(10, 180), (89, 180), (120, 240), (5_000, 7_200)])
def test_a_checkpoint_resolves_it_three_minutes_or_twice_the_longest_gap_after_the_last_sign(
    apart: int, calm: int
) -> None:
    history = short()
    sign(history, 0)
    sign(history, apart * SECOND)
    end = (apart + calm) * SECOND + LAG
    assert completed(history, end - 1) == []
    (one,) = completed(history, end)
    assert one.closed_because.endswith("after the last sign")
    assert completed(history, end + HOUR) == []


def test_checkpoints_of_other_jobs_do_not_resolve_it() -> None:
    history = short().runs(0, job=OTHER, name="payments").runs(1)
    sign(history, SECOND)
    assert completed(history, HOUR, OTHER) == []
    assert len(completed(history, HOUR)) == 1


def test_signs_of_before_a_resolved_one_do_not_open_it_again() -> None:
    history = short()
    sign(history, 10 * SECOND)
    completed(history, HOUR)
    assert sign(history, 5 * SECOND) == []
    assert len(sign(history, HOUR + SECOND)) == 1


@pytest.mark.parametrize("state", ["FINISHED", "CANCELED"])
def test_the_end_of_the_job_ends_it(state: str) -> None:
    history = short()
    sign(history, SECOND)
    assert closed(history.state(state, "", MINUTE, job=OTHER)) == []
    (one,) = closed(history.line("job_ended", MINUTE, job=JOB, state=state))
    assert one.closed_because == f"the job is {state}"


def test_a_job_that_the_adaptive_scheduler_cancels_and_starts_again_has_not_ended() -> None:
    history = short()
    sign(history, SECOND)
    assert closed(history.state("CANCELED", "CANCELLING", MINUTE)) == []


def test_a_job_that_has_failed_must_come_back_under_its_name() -> None:
    history = short()
    sign(history, SECOND)
    assert closed(history.state("FAILED", "FAILING", 2 * SECOND).until(9 * HOUR)) == []
    history.runs(10 * HOUR, job=OTHER, name="payments")
    assert completed(history, 11 * HOUR, OTHER) == []
    history.runs(12 * HOUR, job="c" * 32)
    assert len(completed(history, 13 * HOUR, "c" * 32)) == 1


def test_a_job_without_checkpoints_must_run_for_ten_minutes_without_a_sign() -> None:
    history = short()
    for n in range(3):
        history.restart(FEW, at=n * MINUTE)
    history.findings()
    began = 2 * MINUTE + 501 + LAG
    assert closed(history.until(began + 10 * MINUTE - 1)) == []
    (one,) = closed(history.until(began + 10 * MINUTE))
    assert one.closed_because == "the job has been RUNNING for 10 min without another sign"


def test_a_job_that_waits_to_restart_does_not_run() -> None:
    history = short()
    history.task_failed(FEW, at=0).state("RESTARTING", at=1)
    assert closed(history.until(HOUR)) == []
    assert closed(history.state("RUNNING", "RESTARTING", HOUR).until(HOUR + 5 * MINUTE)) == []
    assert len(closed(history.until(HOUR + 11 * MINUTE))) == 1


def test_a_job_with_checkpoints_waits_for_one() -> None:
    history = short().triggered(1, 0)
    sign(history, SECOND)
    assert closed(history.until(HOUR)) == []
