"""Log lines of the JobManager and of other TaskManagers about TaskManagers."""

from detectors.events.vocabulary.pattern import LogPattern

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "tm_registered", "Registering TaskManager with ", r"Registering TaskManager with ResourceID (?P<tm>\S+)"
    ),
    LogPattern(
        "tm_registered",
        "Registered TaskManager at ",
        r"Registered TaskManager at (?P<host>\S+) \((?P<address>[^)]*)\) as (?P<tm>[0-9a-f]{32})",
        until="1.8",
    ),
    LogPattern(
        "tm_unreachable",
        "is no longer reachable",
        r"TaskManager with id (?P<tm>\S+) is no longer reachable",
        since="1.14",
    ),
    LogPattern(
        "tm_timed_out",
        "heartbeat of TaskManager with id ",
        r"The heartbeat of TaskManager with id (?P<tm>\S+) +timed out",
    ),
    LogPattern(
        "tm_timed_out",
        "Heartbeat of TaskManager with id ",
        r"Heartbeat of TaskManager with id (?P<tm>\S+) timed out",
        anywhere=True,
    ),
    LogPattern(
        "tm_closed",
        "Closing TaskExecutor connection ",
        r"Closing TaskExecutor connection (?P<tm>\S+) because: (?P<reason>.*)",
    ),
    LogPattern(
        "tm_closed",
        "Disconnect TaskExecutor ",
        r"Disconnect TaskExecutor (?P<tm>\S+) because: (?P<reason>.*)",
        since="1.17",
    ),
    LogPattern(
        "tm_closed",
        "is terminated. Diagnostics",
        r"Worker (?P<tm>\S+) is terminated\. Diagnostics: (?P<reason>.*)",
        since="1.12",
    ),
    LogPattern(
        "tm_terminated", "Task manager akka.tcp", r"Task manager (?P<address>akka\.tcp://\S+) terminated", until="1.8"
    ),
    LogPattern(
        "tm_connection_closed",
        "Connection unexpectedly closed by remote task manager ",
        r"Connection unexpectedly closed by remote task manager '(?P<address>[^' ]+)(?: \[ (?P<tm>\S+) \])?",
        anywhere=True,
    ),
    LogPattern(
        "rpc_gated",
        "address is now gated for",
        r"Association with remote system \[(?:akka|pekko)(?:\.ssl)?\.tcp://flink@(?P<address>[^\]]+)\] has failed",
    ),
)
