"""Log lines of the JobManager and of tasks about jobs and tasks."""

from detectors.events.vocabulary.pattern import AT, ATTEMPT, JOB, TASK, LogPattern

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "job_state",
        "switched from state ",
        rf"Job (?P<name>.+) \({JOB}\) switched from state (?P<before>[A-Z]+) to (?P<state>[A-Z]+)",
        throws=True,
    ),
    LogPattern(
        "job_ended",
        "terminal state ",
        rf"Job {JOB} reached (?:globally )?terminal state (?P<state>[A-Z]+)",
        throws=True,
    ),
    # A job that cannot be started has no other line with its name.
    LogPattern("job_initializing", "Initializing job ", rf"Initializing job '?(?P<name>.+?)'? \({JOB}\)", since="1.9"),
    LogPattern(
        "task_deploying",
        "Deploying ",
        rf"Deploying {TASK} \(attempt #\d+\)(?: with attempt id {ATTEMPT})?(?: and vertex id \S+)?"
        r" to (?:(?P<tm>\S+) @ )?(?P<host>\S+)",
    ),
    LogPattern(
        "task_state",
        "switched from ",
        rf"{TASK} \({ATTEMPT}\) switched from (?P<before>[A-Z]+) to (?P<state>[A-Z]+)(?: on {AT})?"
        r"(?:.* with failure cause:\s*(?P<cause>.*))?",
        throws=True,
    ),
)
