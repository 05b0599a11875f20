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

JOB_FAILURE = "JobFailureEvent"

ALL_SUBTASKS = "AllSubtasksStatusChangeEvent"

EVENTS = frozenset({"CheckpointEvent", JOB_STATE, JOB_FAILURE, ALL_SUBTASKS})
"""The events that Flink reports. Why a job failed is in logs only, except for the labels of failure enrichers."""

_LABEL = "failureLabel."
_MAX_LABELS = 8
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
    LogPattern(
        "job_failure_reported",
        rf"{JOB_FAILURE} of job {JOB}: canRestart=(?P<restarts>true|false)?(?:, (?P<labels>.+))?$",
        anchor=JOB_FAILURE,
        since="2.1",
    ),
    LogPattern(
        "all_subtasks_status",
        rf"{ALL_SUBTASKS} of job {JOB}: (?P<status>(?:NOT_)?ALL_RUNNING_OR_FINISHED)$",
        anchor=ALL_SUBTASKS,
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
    if name == JOB_FAILURE:
        return ", ".join([f"{JOB_FAILURE} of job {job}: canRestart={given.get('canRestart', '')}", *_labels(given)])
    if name == ALL_SUBTASKS:
        return f"{ALL_SUBTASKS} of job {job}: {given.get('status', '')}"
    return ""


def _labels(given: Mapping[str, str]) -> list[str]:
    """The labels of a failure in the order of their names, each on one line."""
    found = sorted((key.removeprefix(_LABEL), value) for key, value in given.items() if key.startswith(_LABEL))
    return [" ".join(f"{key}={value}".split()) for key, value in found[:_MAX_LABELS]]
