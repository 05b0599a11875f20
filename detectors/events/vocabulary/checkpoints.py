"""Log lines about checkpoints from the JobManager's CheckpointCoordinator and from tasks."""

from detectors.events.vocabulary.pattern import AT, ATTEMPT, JOB, LogPattern, N

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "checkpoint_triggered",
        "Triggering checkpoint ",
        rf"Triggering checkpoint (?P<checkpoint>{N}) (?:\(type=(?P<type>.+)\) )?@ (?P<epoch>{N})(?: for job {JOB})?",
    ),
    LogPattern(
        "checkpoint_completed",
        "Completed checkpoint ",
        rf"Completed checkpoint (?P<checkpoint>{N})(?: for job {JOB})?"
        rf" \((?P<bytes>{N}) bytes(?: in |, checkpointDuration=)(?P<duration>{N}) ms",
    ),
    LogPattern(
        "checkpoint_expired",
        "expired before completing.",
        rf"Checkpoint (?P<checkpoint>{N})(?: of job {JOB})? expired before completing\.",
    ),
    LogPattern(
        "checkpoint_declined",
        "Decline checkpoint ",
        rf"Decline checkpoint (?P<checkpoint>{N}) by task (?P<attempt>\S+?)\.?(?: of job {JOB})?(?: at {AT})?",
        throws=True,
    ),
    LogPattern(
        "checkpoint_failed",
        "Failed to trigger or complete checkpoint ",
        rf"Failed to trigger or complete checkpoint (?P<checkpoint>{N}) for job {JOB}",
        since="1.14",
        throws=True,
    ),
    LogPattern(
        "checkpoint_failed",
        "consecutive failed attempts so far",
        rf"Failed to trigger checkpoint (?P<checkpoint>{N}) for job {JOB}\. \({N} consecutive failed attempts so far\)",
        since="1.9",
        until="1.13",
        throws=True,
    ),
    LogPattern(
        "checkpoint_failed",
        "Discarding checkpoint ",
        rf"Discarding checkpoint (?P<checkpoint>{N})(?: of job {JOB}| because)",
        until="1.10",
    ),
    LogPattern(
        "checkpoint_acked_late",
        "Received late message for now expired checkpoint attempt ",
        rf"Received late message for now expired checkpoint attempt (?P<checkpoint>{N}) from (?:task )?{ATTEMPT}"
        rf" of job {JOB}(?: at {AT})?",
    ),
    LogPattern(
        "checkpoint_abort_noticed",
        "has been notified as aborted",
        rf"Checkpoint (?P<checkpoint>{N}) has been notified as aborted, would not trigger any checkpoint\.",
        since="1.11",
    ),
    LogPattern(
        "checkpoints_stopped", "Stopping checkpoint coordinator", rf"Stopping checkpoint coordinator for job {JOB}"
    ),
    LogPattern(
        "checkpoint_timeout_set",
        "execution.checkpointing.timeout",
        r"Loading configuration property: execution\.checkpointing\.timeout, (?P<value>.+)",
    ),
    LogPattern("job_restored", "Restoring job ", rf"Restoring job {JOB} from", since="1.9"),
    LogPattern("job_restored", "Starting job ", rf"Starting job {JOB} from savepoint"),
    LogPattern(
        "job_restored", "Restoring from latest valid checkpoint", r"Restoring from latest valid checkpoint", until="1.8"
    ),
)
