"""Log lines about Flink's processes: their start and end in their own words, and TaskManagers as others see them."""

from detectors.events.vocabulary.pattern import LogPattern, N

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern("tm_registered", r"Registering TaskManager with ResourceID (?P<tm>\S+)"),
    LogPattern(
        "tm_registered",
        r"Registered TaskManager at (?P<host>\S+) \((?P<address>[^)]*)\) as (?P<tm>[0-9a-f]{32})",
        until="1.8",
    ),
    LogPattern(
        "tm_unreachable",
        r"TaskManager with id (?P<tm>\S+) is no longer reachable",
        anchor="is no longer reachable",
        since="1.14",
    ),
    LogPattern("tm_timed_out", r"The heartbeat of TaskManager with id (?P<tm>\S+) +timed out"),
    LogPattern("tm_timed_out", r"Heartbeat of TaskManager with id (?P<tm>\S+) timed out", anywhere=True),
    LogPattern("tm_closed", r"Closing TaskExecutor connection (?P<tm>\S+) because: (?P<reason>.*)"),
    LogPattern("tm_closed", r"Disconnect TaskExecutor (?P<tm>\S+) because: (?P<reason>.*)", since="1.17"),
    LogPattern(
        "tm_closed",
        r"Worker (?P<tm>\S+) is terminated\. Diagnostics: (?P<reason>.*)",
        anchor="is terminated. Diagnostics",
        since="1.12",
    ),
    LogPattern(
        "tm_terminated",
        r"Task manager (?P<address>akka\.tcp://\S+) terminated",
        anchor="Task manager akka.tcp",
        until="1.8",
    ),
    LogPattern(
        "tm_connection_closed",
        r"Connection unexpectedly closed by remote task manager '(?P<address>[^' ]+)(?: \[ (?P<tm>\S+) \])?",
        anywhere=True,
    ),
    LogPattern(
        "rpc_gated",
        r"Association with remote system \[(?:akka|pekko)(?:\.ssl)?\.tcp://flink@(?P<address>[^\]]+)\] has failed",
        anchor="address is now gated for",
    ),
    LogPattern(
        "process_fatal",
        r"FATAL: Thread '.*' produced an uncaught exception\. Stopping the process",
        anchor="produced an uncaught exception. Stopping the process",
        since="1.9",
        throws=True,
    ),
    LogPattern("process_signalled", rf"RECEIVED SIGNAL (?P<signal>{N})"),
    LogPattern("tm_started", r"Starting TaskManager with ResourceID: (?P<tm>\S+)"),
    # "Starting " alone would select half of all start-up lines.
    LogPattern(
        "process_version",
        r" *Starting (?P<what>.+) \(Version: (?P<version>[0-9][0-9A-Za-z.\-]*)",
        anchor="Starting ",
        prefilter="Version: ",
    ),
    LogPattern(
        "cluster_ending",
        r"Shutting (?P<what>\S+) down with application status (?P<status>\w+)",
        anchor="down with application status ",
    ),
    # Lines that the native helper of Amazon's Kinesis producer sends through a pipe, with the time of writing
    LogPattern(
        "native_line",
        r"\[(?P<written>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})\] \[0x[0-9a-f]+\].* \[\w+\.cc:\d+\]",
        anchor=".cc",
    ),
)
