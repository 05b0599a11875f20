"""What a Flink process says of itself: start, signal, end."""

from detectors.events.vocabulary.pattern import N, Wording

WORDINGS: tuple[Wording, ...] = (
    Wording("process_signalled", "RECEIVED SIGNAL ", rf"RECEIVED SIGNAL (?P<signal>{N})"),
    Wording("tm_started", "Starting TaskManager with ResourceID", r"Starting TaskManager with ResourceID: (?P<tm>\S+)"),
    # "Starting " alone would let half of every start-up through.
    Wording(
        "process_version",
        "Starting ",
        r" *Starting (?P<what>.+) \(Version: (?P<version>[0-9][0-9A-Za-z.\-]*)",
        gate="Version: ",
    ),
    Wording(
        "cluster_ending",
        "down with application status ",
        r"Shutting (?P<what>\S+) down with application status (?P<status>\w+)",
    ),
    # Amazon's Kinesis producer: its helper's lines, passed on through a pipe, with the time at which it wrote them
    Wording(
        "native_line",
        ".cc",
        r"\[(?P<written>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})\] \[0x[0-9a-f]+\].* \[\w+\.cc:\d+\]",
    ),
)
