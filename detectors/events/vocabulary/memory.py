"""Log lines of YARN's NodeManager about containers killed for their memory use, also when quoted in diagnostics."""

from detectors.events.vocabulary.pattern import LogPattern

_WHO = r"Container \[pid=\d+,containerID=(?P<tm>container_\w+)\] is running "
_HOW_MUCH = (
    r" Current usage: (?P<physical>[\d.]+ ?\w+ of [\d.]+ ?\w+) physical memory used"
    r"(?:; (?P<virtual>[\d.]+ ?\w+ of [\d.]+ ?\w+) virtual)?"
)

PATTERNS: tuple[LogPattern, ...] = (
    # Hadoop 3
    LogPattern(
        "container_over_limit",
        "memory limit. Current usage",
        rf"{_WHO}\d+B beyond the '(?P<which>\w+)' memory limit\.{_HOW_MUCH}",
        anywhere=True,
    ),
    # Hadoop 2
    LogPattern(
        "container_over_limit",
        "memory limits. Current usage",
        rf"{_WHO}beyond (?P<which>\w+) memory limits\.{_HOW_MUCH}",
        anywhere=True,
    ),
)
