"""Why a checkpoint was aborted: reasons that are no failure, and exceptions of a snapshot, which fail the task instead.

Reference: Flink, `CheckpointFailureReason`, with the wording of all versions since 1.4.
"""

import re

from detectors.flink.facts import Failure

_THROWN = re.compile(r"Could not (?:perform checkpoint|complete snapshot|materialize checkpoint) (\d+) for operator")
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


def harmless(text: str) -> bool:
    """Whether a reason is the start, a restart or the end of a job, or a newer checkpoint."""
    return any(word in text.lower() for word in _HARMLESS)


def failed_snapshot(fact: Failure) -> int:
    """The number of the checkpoint whose snapshot threw an exception, or -1."""
    found = _THROWN.search(fact.first) or _THROWN.search(fact.message)
    return int(found[1]) if found is not None else -1
