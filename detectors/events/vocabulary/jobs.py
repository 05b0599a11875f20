"""Log lines of the JobManager and of tasks about jobs and tasks: their states, failures and restarts, missing slots."""

from detectors.events.vocabulary.pattern import AT, ATTEMPT, JOB, TASK, LogPattern, N

_FAILED_TASK = r"the failed task (?P<failed>[0-9a-f]{32}\S*?)\.? *$"

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "job_state",
        rf"Job (?P<name>.+) \({JOB}\) switched from state (?P<before>[A-Z]+) to (?P<state>[A-Z]+)",
        anchor="switched from state ",
        throws=True,
    ),
    LogPattern(
        "job_ended",
        rf"Job {JOB} reached (?:globally )?terminal state (?P<state>[A-Z]+)",
        anchor="terminal state ",
        throws=True,
    ),
    # A job that cannot be started has no other line with its name.
    LogPattern("job_initializing", rf"Initializing job '?(?P<name>.+?)'? \({JOB}\)", since="1.9"),
    LogPattern(
        "task_deploying",
        rf"Deploying {TASK} \(attempt #\d+\)(?: with attempt id {ATTEMPT})?(?: and vertex id \S+)?"
        r" to (?:(?P<tm>\S+) @ )?(?P<host>\S+)",
    ),
    LogPattern(
        "task_state",
        rf"{TASK} \({ATTEMPT}\) switched from (?P<before>[A-Z]+) to (?P<state>[A-Z]+)(?: on {AT})?"
        r"(?:.* with failure cause:\s*(?P<cause>.*))?",
        anchor="switched from ",
        throws=True,
    ),
    LogPattern(
        "tasks_restarting",
        rf"{N} tasks should be restarted to recover {_FAILED_TASK}",
        anchor="tasks should be restarted to recover the failed task ",
        since="1.9",
        until="1.14",
    ),
    LogPattern(
        "tasks_restarting",
        rf"{N} tasks will be restarted to recover (?:{_FAILED_TASK}|from a global failure)",
        anchor="tasks will be restarted to recover ",
        since="1.17",
    ),
    LogPattern("global_failure", r"Trying to recover from a global failure\.", since="1.11", throws=True),
    # From the adaptive scheduler. A rescale logs "Restarting job to scale up" or "Restarting the job".
    LogPattern("job_restarting", r"Restarting job\.", since="1.13", throws=True),
    LogPattern("job_refused", rf"Failed to submit job {JOB}", since="1.9", throws=True),
    LogPattern("nothing_restored", r"No checkpoint found during restore\.", since="1.11"),
    LogPattern("slots_wanted", rf"Could not fulfill resource requirements of job {JOB}", since="1.13"),
    LogPattern(
        "slots_refused", r"Could not acquire the minimum required resources, failing slot requests\.", since="1.13"
    ),
)
