"""Log lines about checkpoints from the JobManager's CheckpointCoordinator and from tasks."""

from detectors.events.vocabulary.pattern import AT, ATTEMPT, JOB, LogPattern, N

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "checkpoint_triggered",
        rf"Triggering checkpoint (?P<checkpoint>{N}) (?:\(type=(?P<type>.+)\) )?@ (?P<epoch>{N})(?: for job {JOB})?",
    ),
    LogPattern(
        "checkpoint_completed",
        rf"Completed checkpoint (?P<checkpoint>{N})(?: for job {JOB})?"
        rf" \((?P<bytes>{N}) bytes(?: in |, checkpointDuration=)(?P<duration>{N}) ms",
    ),
    LogPattern(
        "checkpoint_completed_for_source",
        rf"Marking checkpoint (?P<checkpoint>{N}) as completed for source ",
        since="1.11",
    ),
    LogPattern(
        "checkpoint_expired",
        rf"Checkpoint (?P<checkpoint>{N})(?: of job {JOB})? expired before completing\.",
        anchor="expired before completing.",
    ),
    LogPattern(
        "checkpoint_declined",
        rf"Decline checkpoint (?P<checkpoint>{N}) by task {ATTEMPT}\.?(?: of job {JOB})?(?: at {AT})?",
        throws=True,
    ),
    LogPattern(
        "checkpoint_failed",
        rf"Failed to trigger or complete checkpoint (?P<checkpoint>{N}) for job {JOB}",
        since="1.14",
        throws=True,
    ),
    LogPattern(
        "checkpoint_failed",
        rf"Failed to trigger checkpoint (?P<checkpoint>{N}) for job {JOB}\. \({N} consecutive failed attempts so far\)",
        anchor="consecutive failed attempts so far",
        since="1.9",
        until="1.13",
        throws=True,
    ),
    LogPattern(
        "checkpoint_failed", rf"Discarding checkpoint (?P<checkpoint>{N})(?: of job {JOB}| because)", until="1.10"
    ),
    # No number yet: a savepoint whose directory cannot be made, but also any checkpoint of a job that is about to stop.
    LogPattern(
        "checkpoint_not_triggered",
        rf"Failed to trigger or complete checkpoint UNKNOWN_CHECKPOINT_ID for job {JOB}",
        since="1.14",
        throws=True,
    ),
    LogPattern(
        "savepoint_requested",
        rf"Triggering (?:cancel-with-|stop-with-)?savepoint for job {JOB}",
        anchor="savepoint for job ",
        since="1.11",
    ),
    LogPattern(
        "stop_with_savepoint_failed",
        rf"A savepoint was created at .+ but the corresponding job {JOB} didn't terminate successfully",
        anchor="didn't terminate successfully",
        since="1.11",
        until="1.14",
    ),
    LogPattern(
        "stop_with_savepoint_failed",
        rf"Stop-with-savepoint transitioned from \S+ to \S+ on execution termination handling for job {JOB}",
        since="1.11",
    ),
    LogPattern(
        "stop_with_savepoint_failed", r"Inconsistent execution state after stopping with savepoint\.", since="1.17"
    ),
    LogPattern(
        "checkpoint_acked_late",
        rf"Received late message for now expired checkpoint attempt (?P<checkpoint>{N}) from (?:task )?{ATTEMPT}"
        rf" of job {JOB}(?: at {AT})?",
    ),
    LogPattern(
        "checkpoint_abort_noticed",
        rf"Checkpoint (?P<checkpoint>{N}) has been notified as aborted, would not trigger any checkpoint\.",
        anchor="has been notified as aborted",
        since="1.11",
    ),
    LogPattern(
        "checkpoint_async_failed",
        rf".+ - asynchronous part of checkpoint (?P<checkpoint>{N}) could not be completed\.",
        anchor="asynchronous part of checkpoint",
        since="1.13",
        throws=True,
    ),
    LogPattern("checkpoints_stopped", rf"Stopping checkpoint coordinator for job {JOB}"),
    LogPattern(
        "checkpoint_timeout_set", r"Loading configuration property: execution\.checkpointing\.timeout, (?P<value>.+)"
    ),
    LogPattern(
        "checkpoint_directory_set",
        r"Loading configuration property: (?:state\.checkpoints|execution\.checkpointing)\.dir, (?P<directory>.+)",
        anchor="Loading configuration property: ",
    ),
    LogPattern(
        "checkpoint_storage_set",
        r"Checkpoint storage is set to '\w+': \(checkpoints \"(?P<directory>[^\"]+)",
        anchor="Checkpoint storage is set to ",
        since="1.13",
    ),
    LogPattern("job_restored", rf"Restoring job {JOB} from(?:.+ located at (?P<path>\S+?)\.?$)?", since="1.9"),
    LogPattern("job_restored", rf"Starting job {JOB} from savepoint(?: (?P<path>\S+) \()?"),
    LogPattern("job_restored", "Restoring from latest valid checkpoint", until="1.8"),
)
