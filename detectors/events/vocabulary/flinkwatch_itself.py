"""Lines that flinkwatch's driver writes to the heartbeat topic: about its own input, and about shared resources."""

import re
from collections.abc import Iterable

from detectors.events.vocabulary.pattern import LogPattern, N
from detectors.values.one_word import one_word

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
    LogPattern(
        "shared_resource_fails",
        r"^flinkwatch: a shared resource fails: cluster=(?P<cluster>\S+) incident=(?P<incident>\S+) "
        rf"severity=(?P<severity>warning|critical) epoch=(?P<epoch>{N}) resources=(?P<resources>\S+)",
        anchor="a shared resource fails: cluster=",
        anywhere=True,
    ),
    LogPattern(
        "shared_resource_works",
        r"^flinkwatch: a shared resource works again: cluster=\S+ incident=(?P<incident>\S+)",
        anchor="a shared resource works again: cluster=",
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


def resource_fails(cluster: str, incident: str, severity: str, since: int, resources: Iterable[str]) -> str:
    """An incident of a cluster is open and about these resources, such as `broker/kafka-1:9092`."""
    names = ",".join(one_word(name) for name in resources)
    about = f"cluster={one_word(cluster)} incident={one_word(incident)} severity={severity}"
    return f"flinkwatch: a shared resource fails: {about} epoch={since} resources={names}"


def resource_works(cluster: str, incident: str) -> str:
    """The incident has ended, or is about something else."""
    about = f"cluster={one_word(cluster)} incident={one_word(incident)}"
    return f"flinkwatch: a shared resource works again: {about}"


def where(line: str) -> tuple[str, str]:
    """Topic and partition of a line of this module."""
    found = re.search(_WHERE, line)
    return (found["topic"], found["partition"]) if found else ("", "")
