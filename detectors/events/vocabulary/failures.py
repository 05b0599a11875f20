"""Log lines of the JobManager about failures, restarts and restores of jobs, and about missing slots."""

from detectors.events.vocabulary.pattern import JOB, LogPattern, N

_FAILED_TASK = r"the failed task (?P<failed>[0-9a-f]{32}\S*?)\.? *$"

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "tasks_restarting",
        "tasks should be restarted to recover the failed task ",
        rf"{N} tasks should be restarted to recover {_FAILED_TASK}",
        since="1.9",
        until="1.14",
    ),
    LogPattern(
        "tasks_restarting",
        "tasks will be restarted to recover ",
        rf"{N} tasks will be restarted to recover (?:{_FAILED_TASK}|from a global failure)",
        since="1.17",
    ),
    LogPattern(
        "global_failure",
        "Trying to recover from a global failure.",
        r"Trying to recover from a global failure\.",
        since="1.11",
        throws=True,
    ),
    # From the adaptive scheduler. A rescale logs "Restarting job to scale up" or "Restarting the job".
    LogPattern("job_restarting", "Restarting job.", r"Restarting job\.", since="1.13", throws=True),
    LogPattern("job_refused", "Failed to submit job ", rf"Failed to submit job {JOB}", since="1.9", throws=True),
    LogPattern(
        "nothing_restored",
        "No checkpoint found during restore.",
        r"No checkpoint found during restore\.",
        since="1.11",
    ),
    LogPattern(
        "slots_wanted",
        "Could not fulfill resource requirements of job ",
        rf"Could not fulfill resource requirements of job {JOB}",
        since="1.13",
    ),
    LogPattern(
        "slots_refused",
        "Could not acquire the minimum required resources",
        r"Could not acquire the minimum required resources, failing slot requests\.",
        since="1.13",
    ),
)
