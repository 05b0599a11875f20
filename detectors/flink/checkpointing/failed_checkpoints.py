"""The failed checkpoints of a job in a row, and why they failed.

Some reasons are no failure. An exception of a snapshot fails the task instead of declining the checkpoint.

Reference: Flink, `CheckpointFailureReason`, with the wording of all versions since 1.4.
"""

import re

import msgspec

from detectors.flink.facts import Failure
from detectors.incident import Evidence
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO

EXPIRED = "it expired before completing"
_MAX_FAILED = 16
_MAX_HARMLESS = 32
_THROWN = re.compile(r"Could not (?:perform checkpoint|complete snapshot|materialize checkpoint) (\d+) for operator")
# Errors of S3 (SlowDown, status 503), Azure (ServerBusy) and Google Cloud Storage (status 429).
_THROTTLED = re.compile(
    r"\bSlow ?Down\b|reduce your request rate|over the account limit|rateLimitExceeded|429 Too Many Requests"
)
# What a task meets that still writes its part of a checkpoint when the checkpoint is aborted.
_ABORTED = re.compile(r"CancellationException|Interrupted|ClosedChannel|[Ss]tream (?:is |was )?(?:already )?closed")
_HARMLESS = (
    "not all required tasks",
    "coordinator is suspending",
    "coordinator shutdown",
    "tasks not ready",
    "task is closing",
    "partially closed",
    "input stream is finished",
    "cancellation from one of its inputs",
    "barrier from newer checkpoint",
    "has been subsumed",
    "the job has failed",
    "task has failed",
    "failoverregion is restarting",
    "scheduler is shut",
    "minimum time between",
    "queued checkpoint requests",
    "blocking output edge",
)


class FailedCheckpoint(msgspec.Struct, array_like=True):
    """A failed checkpoint: event time and clock of its first line, the record, and the reason (empty until known).

    `thrown`: it made a task fail, so the restart that follows is its effect. `doubtful`: it came so soon after a
    restart that it counts only with a reason of its own. `upload`: why a task could not write its part of it.
    """

    time: int
    at: int
    record: Evidence
    why: str = ""
    thrown: bool = False
    doubtful: bool = False
    upload: str = ""


class FailedCheckpoints(msgspec.Struct, array_like=True):
    """Failures since the last completed checkpoint, by number; `before` counts those no longer kept.

    `harmless` holds the numbers that do not count (savepoints, and reasons that are no failure). `completed` and
    `restarted` are event times. `limit` is the line that too many have failed.
    """

    failed: dict[int, FailedCheckpoint] = {}
    before: int = 0
    harmless: list[int] = []
    completed: int = LONG_AGO
    restarted: int = LONG_AGO
    limit: Evidence | None = None

    def counting(self) -> dict[int, FailedCheckpoint]:
        """The kept failures that count."""
        return {n: f for n, f in self.failed.items() if f.why or not f.doubtful}

    def count(self) -> int:
        """The number of failures in a row."""
        return self.before + len(self.counting())

    def why(self) -> str:
        """Why the last of them failed, empty if it is not known. What kept a task from writing explains an expiry."""
        failed = [f for _, f in sorted(self.counting().items(), reverse=True)]
        return next((f.upload for f in failed if f.upload), "") or next((f.why for f in failed if f.why), "")

    def enough(self, in_a_row: int, wait: int) -> int | None:
        """Clock at which that many have failed and `wait` ms for their reasons are over; None while there are fewer."""
        ready = sorted(f.at + (0 if f.why == EXPIRED else wait) for f in self.counting().values())
        missing = max(in_a_row - self.before, 1)
        return ready[missing - 1] if len(ready) >= missing else None

    def add(self, number: int, failed: FailedCheckpoint) -> None:
        """Add a failure. The oldest one is only counted from then on."""
        self.before += len(self.failed) >= _MAX_FAILED
        put_bounded(self.failed, number, failed, _MAX_FAILED)

    def throw(self, number: int, failed: FailedCheckpoint) -> None:
        """Add a failure that made a task fail, or what another line shows of it."""
        if number in self.harmless or failed.time <= self.completed:
            return
        if number in self.failed:
            self.failed[number].thrown, self.failed[number].why = True, failed.why
        else:
            self.add(number, failed)

    def ignore(self, number: int) -> None:
        """Do not count a failure."""
        self.failed.pop(number, None)
        if number not in self.harmless:
            self.harmless = [*self.harmless, number][-_MAX_HARMLESS:]

    def complete(self, time: int) -> bool:
        """Take in a completed checkpoint, which ends the row. Returns False if its line is outdated."""
        last = max((f.time for f in self.failed.values()), default=LONG_AGO)
        if time < max(last, self.completed, self.limit.time if self.limit else LONG_AGO):
            return False
        self.completed = time
        self.failed, self.before, self.limit = {}, 0, None
        return True

    def restart(self, time: int, clock: int, within: int, forgive: bool) -> None:
        """Take in a restart. Those it aborted may be logged just before it, with their reason lost: `forgive` them."""
        self.restarted = max(self.restarted, time)
        for number, failed in list(self.failed.items()):
            if not failed.why and 0 <= time - failed.time <= within and forgive:
                self.ignore(number)
            elif failed.thrown:
                failed.at = min(failed.at, clock - within)  # Its stack trace is complete.


def harmless(text: str) -> bool:
    """Whether a reason is the start, a restart or the end of a job, or a newer checkpoint."""
    return any(word in text.lower() for word in _HARMLESS)


def reason(fact: Failure) -> str:
    """Why a checkpoint failed, from the deepest cause."""
    name = fact.name.rpartition(".")[2]
    # Flink's wrapper for an exception of another process: its message begins with the real class.
    why = (fact.message if name == "SerializedThrowable" else f"{name}: {fact.message}").rstrip(": .")
    return f"the object store accepts no more requests per second: {why}" if _THROTTLED.search(why) else why


def upload_error(fact: Failure) -> str:
    """Why a task could not write its part of a checkpoint, empty if that had been aborted before.

    Clients of object stores retry for longer than many checkpoint timeouts, so the JobManager only sees an expiry.
    """
    return "" if _ABORTED.search(fact.thrown) else reason(fact)


def failed_snapshot(fact: Failure) -> int:
    """The number of the checkpoint whose snapshot threw an exception, or -1."""
    found = _THROWN.search(fact.first) or _THROWN.search(fact.message)
    return int(found[1]) if found is not None else -1
