"""Lines that flinkwatch's driver writes to the heartbeat topic about its own input."""

import re

from detectors.events.vocabulary.pattern import LogPattern, N

_WHERE = rf"(?P<topic>[a-zA-Z0-9._-]+)/(?P<partition>{N})"

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "input_lost",
        rf"^flinkwatch: (?P<count>{N}) unread records were removed by Kafka from {_WHERE} before offset (?P<until>{N})",
        anchor="unread records were removed by Kafka",
        anywhere=True,
    ),
    LogPattern(
        "input_began_again",
        rf"^flinkwatch: {_WHERE} was deleted and made again, its offsets began again below (?P<until>{N})",
        anchor="was deleted and made again, its offsets began again",
        anywhere=True,
    ),
    LogPattern(
        "input_read_up",
        rf"^flinkwatch has read up to the end of {_WHERE}",
        anchor="flinkwatch has read up to the end of",
        anywhere=True,
    ),
)

CLUSTER = "flinkwatch"
"""The cluster name of these lines, which are about flinkwatch itself."""


def lost(topic: str, partition: str, count: int, until: int) -> str:
    return f"flinkwatch: {count} unread records were removed by Kafka from {topic}/{partition} before offset {until}"


def began_again(topic: str, partition: str, below: int) -> str:
    return f"flinkwatch: {topic}/{partition} was deleted and made again, its offsets began again below {below}"


def read_up(topic: str, partition: str) -> str:
    return f"flinkwatch has read up to the end of {topic}/{partition}"


def where(line: str) -> tuple[str, str]:
    """Topic and partition of a line of this module."""
    found = re.search(_WHERE, line)
    return (found["topic"], found["partition"]) if found else ("", "")
