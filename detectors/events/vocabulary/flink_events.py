"""Flink's own events (FLIP-481) and spans (FLIP-384), which its OpenTelemetry reporters send without a line of text.

A line is made of their attributes, so that they are matched, kept and shown as log lines are. Flink reports a
checkpoint at its end, and a job at each change of its state.
"""

from collections.abc import Mapping

from detectors.events.vocabulary.pattern import JOB, LogPattern, N

SCOPE = "org.apache.flink."
"""How the scopes begin in which Flink reports."""

JOB_STATE = "JobStatusChangeEvent"

CHECKPOINT = "CheckpointStatsTracker reports checkpoint "
"""How the lines of checkpoints begin, as `JOB_STATE` is the beginning of those of jobs."""

EVENTS = frozenset({"CheckpointEvent", JOB_STATE, "JobFailureEvent", "AllSubtasksStatusChangeEvent"})
"""The events that Flink reports. The first two say more than the others, and a failure its reason in logs only."""

_CHECKPOINT = rf"{CHECKPOINT}(?P<checkpoint>{N}) of job {JOB}"

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "checkpoint_completed",
        rf"{_CHECKPOINT}: COMPLETED, (?P<bytes>{N}) bytes(?:, (?P<duration>{N}) ms)?$",
        anchor="CheckpointStatsTracker",
        since="1.19",
    ),
    LogPattern("checkpoint_failed", rf"{_CHECKPOINT}: FAILED", anchor="CheckpointStatsTracker", since="1.19"),
    LogPattern(
        "job_state",
        rf"{JOB_STATE} of job (?P<name>.+) \({JOB}\): (?P<state>[A-Z]+)$",
        anchor=JOB_STATE,
        since="2.1",
    ),
)


def line(name: str, given: Mapping[str, str], duration: int = -1) -> str:
    """The line of an event, or of a span of that `duration` in ms; empty for those that no detector uses."""
    job = given.get("job_id", "")
    if name in ("CheckpointEvent", "Checkpoint"):
        number, status, size = (given.get(k, "") for k in ("checkpointId", "checkpointStatus", "fullSize"))
        took = f", {duration} ms" if duration >= 0 else ""
        return f"{CHECKPOINT}{number} of job {job}: {status}, {size} bytes{took}"
    if name == JOB_STATE:
        named = " ".join(given.get("job_name", "").split()) or job
        return f"{JOB_STATE} of job {named} ({job}): {given.get('newJobStatus', '')}"
    return ""
