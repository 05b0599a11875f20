"""Log lines of a Flink process about itself: start, signal, end."""

from detectors.events.vocabulary.pattern import LogPattern, N

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern("process_signalled", "RECEIVED SIGNAL ", rf"RECEIVED SIGNAL (?P<signal>{N})"),
    LogPattern(
        "tm_started", "Starting TaskManager with ResourceID", r"Starting TaskManager with ResourceID: (?P<tm>\S+)"
    ),
    # "Starting " alone would select half of all start-up lines.
    LogPattern(
        "process_version",
        "Starting ",
        r" *Starting (?P<what>.+) \(Version: (?P<version>[0-9][0-9A-Za-z.\-]*)",
        prefilter="Version: ",
    ),
    LogPattern(
        "cluster_ending",
        "down with application status ",
        r"Shutting (?P<what>\S+) down with application status (?P<status>\w+)",
    ),
    # Lines that the native helper of Amazon's Kinesis producer sends through a pipe, with the time of writing
    LogPattern(
        "native_line",
        ".cc",
        r"\[(?P<written>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})\] \[0x[0-9a-f]+\].* \[\w+\.cc:\d+\]",
    ),
)
