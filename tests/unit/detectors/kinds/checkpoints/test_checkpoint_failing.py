"""Failures in a row are counted as Flink counts them, and what starts and stops bring with them is not."""

from collections.abc import Callable

import pytest

from detectors.flink.facts import FAILURE
from tests.unit.detectors.story import JOB, MINUTE, SECOND, Followed, story
from tests.unit.detectors.streams import START, encoded

DECLINED = "org.apache.flink.runtime.checkpoint.CheckpointException: "


class Failing(Followed):
    """A job whose checkpoints fail."""

    def failed(self, number: int, at: int, why: str = "", root: str = "", message: str = "") -> "Failing":
        """A checkpoint fails; the stack trace that follows has `why` and its root cause."""
        self.line("checkpoint_failed", at, checkpoint=str(number), job=JOB)
        if not why:
            return self
        own = {"of": "checkpoint_failed", "first": DECLINED + why, "frame": "", "id": str(number)}
        thrown = {"class": root or "x.CheckpointException", "message": message or why}
        return self.line(FAILURE, at, checkpoint=str(number), job=JOB, **own, **thrown)

    def declined(self, number: int, at: int) -> "Failing":
        """A checkpoint is declined, without a reason."""
        return self.line("checkpoint_declined", at, checkpoint=str(number), job=JOB)

    def not_written(self, number: int, at: int, message: str, root: str = "x.AmazonS3Exception") -> "Failing":
        """A TaskManager's asynchronous part of a checkpoint fails."""
        own = {"of": "checkpoint_async_failed", "first": "", "frame": "", "id": f"{number}/{at}"}
        self.line(FAILURE, at, source="tm", checkpoint=str(number), **own, **{"class": root, "message": message})
        return self

    def expiries(self, count: int = 3) -> "Failing":
        """Checkpoints that expire, one every ten seconds."""
        for n in range(1, count + 1):
            self.expired(n, n * 10 * SECOND)
        return self

    def threw(self, number: int, at: int, source: str = "jm") -> "Failing":
        """A snapshot threw: the task fails, the job restarts, and the suspended coordinator is notified of it."""
        first = f"java.io.IOException: Could not perform checkpoint {number} for operator map (2/2)#0."
        own = {"of": "task_state", "first": first, "frame": "", "id": str(number), "state": "FAILED"}
        self.triggered(number, at - 1)
        for message in (first.partition(": ")[2], "No space left on device"):
            self.line(FAILURE, at, source=source, **own, **{"class": "java.io.IOException", "message": message})
        if source != "jm":
            return self
        self.state("RESTARTING", at=at + 1).failed(number, at + 2, "Checkpoint Coordinator is suspending.")
        return self.line("job_restored", at + 500, job=JOB)


def job() -> Failing:
    return Failing("checkpoint_failing")


def test_the_third_expiry_in_a_row_is_reported_and_a_completed_checkpoint_ends_it() -> None:
    history = job().expired(1, 0).expired(2, 10 * SECOND)
    assert history.findings() == []
    (finding,) = history.expired(3, 20 * SECOND).findings()
    assert finding.summary == "3 checkpoints in a row failed (last: checkpoint 3): it expired before completing"
    assert (finding.since, finding.severity, len(finding.evidence)) == (START, "critical", 3)
    (ended,) = history.completed(4, 30 * SECOND).findings()
    assert ended.closed_because == "checkpoint 4 completed"


def test_a_completed_checkpoint_between_them_starts_the_count_anew() -> None:
    history = job()
    for n in range(1, 12):
        if n % 3 == 0:
            history.completed(n, n * 10 * SECOND)
        else:
            history.expired(n, n * 10 * SECOND)
    assert history.findings() == []


def test_the_same_checkpoint_failing_in_several_lines_counts_once() -> None:
    history = job()
    for n in (1, 2):
        at = n * 10 * SECOND
        history.declined(n, at).failed(n, at).expired(n, at).expired(n, at)
    assert history.findings() == []


@pytest.mark.parametrize(
    "why",
    [
        "Checkpoint Coordinator is suspending.",
        "CheckpointCoordinator shutdown.",
        "Checkpoint was declined (tasks not ready)",
        "Checkpoint was declined (task is closing)",
        "Checkpoint was declined (task's operators partially closed)",
        "Not all required tasks are currently running.",
        "The job has failed.",
        "Task has failed.",
        "FailoverRegion is restarting.",
        "Checkpoint has been subsumed.",
    ],
)
def test_what_a_start_a_restart_or_an_end_takes_with_it_does_not_count(why: str) -> None:
    history = job()
    for n in range(1, 9):
        history.failed(n, n * 20 * SECOND, why).until((n * 20 + 19) * SECOND)
    assert history.findings() == []


def test_a_failure_near_a_restart_whose_reason_was_lost_does_not_count() -> None:
    history = job()
    for n in range(1, 9):
        at = n * 20 * SECOND
        history.failed(n, at).state("RESTARTING", at=at + 5).declined(n + 100, at + 500).until(at + 19 * SECOND)
    assert history.findings() == []


def test_savepoints_do_not_count() -> None:
    history = job()
    for n in range(1, 6):
        history.triggered(n, n * 20 * SECOND, kind="SavepointType{name='Savepoint'}").expired(n, (n * 20 + 10) * SECOND)
    assert history.findings() == []


def test_declined_checkpoints_are_reported_with_their_root_cause_once_it_is_known() -> None:
    history = job()
    for n in (1, 2, 3):
        why, root, message = "Asynchronous task checkpoint failed.", "java.io.IOException", "No space left on device"
        history.failed(n, n * 20 * SECOND, why, root, message)
    assert history.findings() == []
    assert [f.summary for f in history.until(63 * SECOND).findings()] == [
        "3 checkpoints in a row failed (last: checkpoint 3): IOException: No space left on device"
    ]


@pytest.mark.parametrize(
    ("root", "message", "throttled"),
    [
        (
            "com.amazonaws.services.s3.model.AmazonS3Exception",
            "Please reduce your request rate. (Service: Amazon S3; Status Code: 503; Error Code: SlowDown; …)",
            True,
        ),
        ("software.amazon.awssdk.services.s3.model.S3Exception", "Slow Down (Service: S3, Status Code: 503)", True),
        ("java.io.IOException", "Operations per second is over the account limit. (ServerBusy)", True),
        ("com.google.cloud.storage.StorageException", "429 Too Many Requests", True),
        ("com.amazonaws.SdkClientException", "Unable to execute HTTP request: Connect to s3 timed out", False),
        ("java.io.IOException", "cannot write to /data/slowdown/chk-3", False),
    ],
)
def test_an_object_store_that_throttles_is_named_as_the_reason(root: str, message: str, throttled: bool) -> None:
    history = job()
    for n in (1, 2, 3):
        history.failed(n, n * 20 * SECOND, "Asynchronous task checkpoint failed.", root, message)
    (finding,) = history.until(63 * SECOND).findings()
    assert ("the object store accepts no more requests per second: " in finding.summary) is throttled


def test_without_a_reason_they_are_reported_after_the_waiting_time() -> None:
    history = job()
    for n in (1, 2, 3):
        history.declined(n, n * 20 * SECOND)
    assert history.until(60_500).findings() == []
    (finding,) = history.until(63 * SECOND).findings()
    assert (finding.confidence, history.until(70 * SECOND).findings()) == ("fair", [])


@pytest.mark.parametrize("before", [0, 1])
def test_the_exceeded_tolerance_is_reported_at_once(before: int) -> None:
    history = job().expiries(before)
    exceeded = {
        "of": "job_state",
        "id": "1",
        "class": "org.apache.flink.util.FlinkRuntimeException",
        "message": "Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to …",
        "first": "org.apache.flink.util.FlinkRuntimeException: Exceeded checkpoint tolerable failure threshold.",
    }
    (finding,) = history.line(FAILURE, 20 * SECOND, job=JOB, **exceeded).findings()
    assert finding.summary.startswith(
        "the job restarts because it exceeded the tolerable number of failed checkpoints; "
    )
    assert history.line(FAILURE, 20_001, job=JOB, **exceeded).findings() == []


def test_lines_that_come_again_after_the_end_open_nothing() -> None:
    history = job().expiries().completed(4, 40 * SECOND)
    assert [f.closed_at is not None for f in history.findings()] == [False, True]
    assert history.expiries().findings() == []


@pytest.mark.parametrize("state", ["CANCELED", "FAILED", "FINISHED"])
def test_it_ends_with_the_job(state: str) -> None:
    *_, ended = job().expiries().state(state, at=40 * SECOND).findings()
    assert ended.closed_because == f"the job is {state}"


@pytest.mark.parametrize(("version", "counts"), [("1.9.3", False), ("1.10.3", False), ("1.11.0", True), ("", True)])
def test_a_flink_that_does_not_count_expiries_is_reported(version: str, counts: bool) -> None:
    history = job()
    history.topology.version = version
    (finding,) = history.expiries().findings()
    assert ("does not count expired checkpoints, so it will not restart the job" in finding.summary) is not counts


def test_failures_are_counted_beyond_those_that_are_kept() -> None:
    history = job().expiries(40)
    assert history.findings()[-1].summary.startswith("40 checkpoints in a row failed (last: checkpoint 40)")
    assert len(history.view.state.jobs[JOB].failed) <= 16
    assert list(history.readings().values()) == [40]


def test_a_snapshot_that_throws_fails_its_task_and_counts_whatever_the_restart_reports_of_it() -> None:
    history = job().threw(5, 0).threw(6, 5 * SECOND)
    assert history.findings() == []
    (finding,) = history.threw(7, 10 * SECOND).findings()
    assert finding.summary == "3 checkpoints in a row failed (last: checkpoint 7): IOException: No space left on device"
    (ended,) = history.completed(8, 30 * SECOND).findings()
    assert ended.closed_because == "checkpoint 8 completed"


def six_throws(prepare: Callable[[Failing], object], source: str = "jm") -> Failing:
    history = job()
    prepare(history)
    for n in range(6):
        history.threw(n, 5 * SECOND * n, source)
    return history


def test_what_a_taskmanager_reports_of_a_snapshot_that_threw_is_no_other_job() -> None:
    history = six_throws(lambda one: one.topology.tm_of_source.update({"tm-1": "tm-1:1-a"}), source="tm-1")
    assert history.until(60 * SECOND).findings() == []


def test_a_snapshot_that_threw_is_of_the_job_that_was_at_that_checkpoint() -> None:
    history = six_throws(lambda one: one.topology.job_of_source.update({"jm": "b" * 32}))
    assert {f.subject for f in history.findings()} == {JOB}


def test_failures_right_after_a_restart_count_once_their_own_reason_is_reported() -> None:
    history = job().triggered(1, 0).line("job_restored", 10 * SECOND, job=JOB)
    for n in range(3):
        history.failed(n + 1, (11 + n) * SECOND, "Asynchronous task checkpoint failed.", "x.IOException", "503 Busy")
    (finding,) = history.until(20 * SECOND).findings()
    assert finding.summary == "3 checkpoints in a row failed (last: checkpoint 3): IOException: 503 Busy"
    silent = job().triggered(1, 0).line("job_restored", 10 * SECOND, job=JOB)
    for n in range(5):
        silent.failed(n, (11 + n) * SECOND)
    assert silent.until(60 * SECOND).findings() == []


def test_a_stack_trace_that_is_sent_again_after_the_recovery_opens_nothing() -> None:
    exceeded = ("org.apache.flink.util.FlinkRuntimeException", "Exceeded checkpoint tolerable failure threshold.", "")
    jm = story("checkpoint_failing").runs()
    jm.restart(exceeded, at=MINUTE).completed(1, 80 * SECOND).completed(2, 100 * SECOND)
    once = jm.transitions(10 * MINUTE)
    assert [t.transition for t in once][:1] == ["opened"]
    jm.sent_again(60 * SECOND, only=lambda e: e.event_type == "thrown")
    assert encoded(jm.transitions(10 * MINUTE)) == encoded(once)


SLOW_DOWN = "Please reduce your request rate. (Service: Amazon S3; Status Code: 503; Error Code: SlowDown)"


def test_an_expiry_is_explained_by_a_task_that_could_not_write_its_part() -> None:
    history = job().not_written(1, 45 * SECOND, SLOW_DOWN).expired(1, 60 * SECOND).expired(2, 120 * SECOND)
    history.not_written(1, 125 * SECOND, SLOW_DOWN).expired(3, 180 * SECOND)
    (finding,) = history.findings()
    assert finding.summary == (
        "3 checkpoints in a row failed (last: checkpoint 3): the object store accepts no more requests per second: "
        f"AmazonS3Exception: {SLOW_DOWN}"
    )


def test_a_task_that_was_interrupted_by_the_abort_explains_nothing() -> None:
    history = job().expired(1, 0).expired(2, 10 * SECOND)
    history.not_written(2, 11 * SECOND, "", root="java.util.concurrent.CancellationException").expired(3, 20 * SECOND)
    (finding,) = history.findings()
    assert finding.summary.endswith(": it expired before completing")
