"""Failures in a row are counted as Flink counts them, and what starts and stops bring with them is not."""

import pytest

from detectors.detector import Now
from detectors.events.event import LogEvent
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Finding
from detectors.kinds.checkpoint_failing import CheckpointFailing
from tests.unit.detectors.streams import START, log

JOB = "a" * 32
DECLINED = "org.apache.flink.runtime.checkpoint.CheckpointException: "


class Watched:
    """The detector alone; a call is one line, `tick` lets the clock run."""

    def __init__(self) -> None:
        self.detector = CheckpointFailing(CheckpointFailing.Config())
        self.state, self.topology = self.detector.initial(), Topology()

    def __call__(self, event_type: str, at: int, number: int = 0, **fields: str) -> list[Finding]:
        event: LogEvent = log(event_type, at, checkpoint=str(number), job=JOB, **fields)
        now = Now(event.timestamp, event.local_time)
        return list(self.detector.update(self.state, event, now, self.topology))

    def fail(self, at: int, number: int, why: str, root: str = "", message: str = "") -> list[Finding]:
        said = self("checkpoint_failed", at, number)
        own = {"of": "checkpoint_failed", "first": DECLINED + why, "frame": "", "id": str(number)}
        return said + self(
            FAILURE, at, number, **own, **{"class": root or "x.CheckpointException", "message": message or why}
        )

    def told(self, at: int, source: str, fields: dict[str, str]) -> list[Finding]:
        event = log(FAILURE, at, 0, source, 100, **fields)
        return list(self.detector.update(self.state, event, Now(event.timestamp, event.local_time), self.topology))

    def tick(self, at: int) -> list[Finding]:
        due = self.detector.due(self.state)
        if due is None or due > START + at:
            return []
        return list(self.detector.expire(self.state, START + at, self.topology))


def test_the_third_expiry_in_a_row_is_said_and_a_completed_checkpoint_ends_it() -> None:
    watched = Watched()
    assert watched("checkpoint_expired", 0, 1) == watched("checkpoint_expired", 10_000, 2) == []
    (said,) = watched("checkpoint_expired", 20_000, 3)
    assert said.summary == "3 checkpoints in a row failed, the last is 3: it expired before completing"
    assert (said.since, said.severity, len(said.evidence)) == (START, "critical", 3)
    (ended,) = watched("checkpoint_completed", 30_000, 4, duration="10", bytes="1")
    assert ended.closed_because == "checkpoint 4 completed"


def test_a_completed_checkpoint_between_them_starts_the_count_anew() -> None:
    watched = Watched()
    for n in range(1, 12):
        event_type = "checkpoint_completed" if n % 3 == 0 else "checkpoint_expired"
        assert watched(event_type, n * 10_000, n, duration="10", bytes="1") == []


def test_the_same_checkpoint_failing_in_several_lines_counts_once() -> None:
    watched = Watched()
    for n in (1, 2):
        for event_type in ("checkpoint_declined", "checkpoint_failed", "checkpoint_expired", "checkpoint_expired"):
            assert watched(event_type, n * 10_000, n) == []


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
    watched = Watched()
    for n in range(1, 9):
        assert watched.fail(n * 20_000, n, why) == []
        assert watched.tick(n * 20_000 + 19_000) == []


def test_a_failure_near_a_restart_whose_reason_was_lost_does_not_count() -> None:
    watched = Watched()
    for n in range(1, 9):
        watched("checkpoint_failed", n * 20_000, n)
        watched("job_state", n * 20_000 + 5, state="RESTARTING")
        watched("checkpoint_declined", n * 20_000 + 500, n + 100)
        assert watched.tick(n * 20_000 + 19_000) == []


def test_savepoints_do_not_count() -> None:
    watched = Watched()
    for n in range(1, 6):
        watched("checkpoint_triggered", n * 20_000, n, type="SavepointType{name='Savepoint'}")
        assert watched("checkpoint_expired", n * 20_000 + 10_000, n) == []


def test_declined_checkpoints_are_said_with_their_root_cause_once_it_is_known() -> None:
    watched, said = Watched(), []
    for n in (1, 2, 3):
        why, root, message = "Asynchronous task checkpoint failed.", "java.io.IOException", "No space left on device"
        said += watched.fail(n * 20_000, n, why, root, message)
    assert said == []
    said = watched.tick(63_000)
    assert [f.summary for f in said] == [
        "3 checkpoints in a row failed, the last is 3: IOException: No space left on device"
    ]


def test_without_a_reason_they_are_said_after_the_waiting_time() -> None:
    watched = Watched()
    for n in (1, 2, 3):
        assert watched("checkpoint_declined", n * 20_000, n) == []
    assert watched.tick(60_500) == []
    (said,) = watched.tick(63_000)
    assert (said.confidence, watched.tick(70_000)) == ("fair", [])


@pytest.mark.parametrize("before", [0, 1])
def test_the_exceeded_tolerance_is_said_at_once(before: int) -> None:
    watched = Watched()
    for n in range(before):
        watched("checkpoint_expired", n * 10_000, n + 1)
    exceeded = {
        "of": "job_state",
        "class": "org.apache.flink.util.FlinkRuntimeException",
        "message": "Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to …",
        "first": "org.apache.flink.util.FlinkRuntimeException: Exceeded checkpoint tolerable failure threshold.",
    }
    (said,) = watched(FAILURE, 20_000, **exceeded)
    assert said.summary.startswith("the job restarts because it tolerates no more failed checkpoints; ")
    assert watched(FAILURE, 20_001, **exceeded) == []


def test_lines_that_come_again_after_the_end_open_nothing() -> None:
    watched = Watched()
    for n in (1, 2, 3):
        watched("checkpoint_expired", n * 10_000, n)
    watched("checkpoint_completed", 40_000, 4, duration="10", bytes="1")
    for n in (1, 2, 3):
        assert watched("checkpoint_expired", n * 10_000, n) == []


@pytest.mark.parametrize("state", ["CANCELED", "FAILED", "FINISHED"])
def test_it_ends_with_the_job(state: str) -> None:
    watched = Watched()
    for n in (1, 2, 3):
        watched("checkpoint_expired", n * 10_000, n)
    (ended,) = watched("job_state", 40_000, state=state)
    assert ended.closed_because == f"the job is {state}"


def test_a_flink_that_does_not_count_expiries_is_told() -> None:
    watched = Watched()
    watched.topology.version = "1.9.3"
    for n in (1, 2, 3):
        said = watched("checkpoint_expired", n * 10_000, n)
    assert said[0].summary.endswith("this Flink does not count expiries and will not restart the job")


def test_failures_are_counted_beyond_those_that_are_kept() -> None:
    watched = Watched()
    for n in range(1, 41):
        said = watched("checkpoint_expired", n * 10_000, n)
    assert said[0].summary.startswith("40 checkpoints in a row failed, the last is 40")
    assert len(watched.state.jobs[JOB].failed) <= 16
    assert [r.value for r in watched.detector.readings(watched.state, START, watched.topology)] == [40]


def threw(watched: Watched, at: int, number: int, source: str = "jm") -> list[Finding]:
    """A snapshot threw: the task fails, the job restarts, and the coordinator's suspension is told of the same one."""
    first = f"java.io.IOException: Could not perform checkpoint {number} for operator map (2/2)#0."
    own = {"of": "task_state", "first": first, "frame": "", "id": str(number), "state": "FAILED"}
    watched("checkpoint_triggered", at - 1, number)
    for message in (first.partition(": ")[2], "No space left on device"):
        said = watched.told(at, source, own | {"class": "java.io.IOException", "message": message})
    if source == "jm":
        said += watched("job_state", at + 1, 0, state="RESTARTING")
        said += watched.fail(at + 2, number, "Checkpoint Coordinator is suspending.")
        said += watched("job_restored", at + 500, 0)
    return said


def test_a_snapshot_that_throws_fails_its_task_and_counts_whatever_the_restart_says_of_it() -> None:
    watched = Watched()
    assert threw(watched, 0, 5) == threw(watched, 5_000, 6) == []
    (said,) = threw(watched, 10_000, 7)
    assert said.summary == "3 checkpoints in a row failed, the last is 7: IOException: No space left on device"
    (ended,) = watched("checkpoint_completed", 30_000, 8, duration="10", bytes="1")
    assert ended.closed_because == "checkpoint 8 completed"


def test_what_a_taskmanager_tells_of_a_snapshot_that_threw_is_no_other_job() -> None:
    watched = Watched()
    watched.topology.tm_of_source["tm-1"] = "tm-1:1-a"
    said = [s for n in range(6) for s in threw(watched, 5_000 * n, n, source="tm-1")]
    assert said == watched.tick(60_000) == []


def test_a_snapshot_that_threw_is_of_the_job_that_was_at_that_checkpoint() -> None:
    watched = Watched()
    watched.topology.job_of_source["jm"] = "b" * 32
    said = [s for n in range(3) for s in threw(watched, 5_000 * n, n)]
    assert [s.subject for s in said] == [JOB]


def test_failures_right_after_a_restart_count_once_their_own_reason_is_told() -> None:
    watched = Watched()
    watched("checkpoint_triggered", 0, 1)
    assert watched("job_restored", 10_000, 0) == []
    for n in range(3):
        watched.fail(
            11_000 + n * 1_000, n + 1, "Asynchronous task checkpoint failed.", "x.IOException", "503 Slow Down"
        )
    (said,) = watched.tick(20_000)
    assert said.summary == "3 checkpoints in a row failed, the last is 3: IOException: 503 Slow Down"
    silent = Watched()
    silent("checkpoint_triggered", 0, 1)
    silent("job_restored", 10_000, 0)
    assert [silent("checkpoint_failed", 11_000 + n * 1_000, n) for n in range(5)] == [[]] * 5
    assert silent.tick(60_000) == []
