"""Log lines of YARN and events of Kubernetes about nodes and containers.

`Expired:` lines of attempts and containers look like those of nodes, but only nodes have a port.
"""

from detectors.events.names import CONTAINER
from detectors.events.vocabulary.pattern import LogPattern, N

_NODE = r"(?P<node>[A-Za-z0-9_.\-]+:\d{1,5})"
_WHO = r"Container \[pid=\d+,containerID=(?P<tm>container_\w+)\] is running "
_HOW_MUCH = (
    r" Current usage: (?P<physical>[\d.]+ ?\w+ of [\d.]+ ?\w+) physical memory used"
    r"(?:; (?P<virtual>[\d.]+ ?\w+ of [\d.]+ ?\w+) virtual)?"
)

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern("node_lost", rf"Expired:{_NODE} Timed out after (?P<silent>{N}) secs", anchor="Timed out after "),
    LogPattern("node_lost", rf"Deactivating Node {_NODE} as it is now LOST", anchor="as it is now LOST"),
    LogPattern("node_lost", rf"{_NODE} Node Transitioned from [A-Z]+ to LOST", anchor="Node Transitioned from "),
    LogPattern("node_back", rf"{_NODE} Node Transitioned from [A-Z]+ to RUNNING", anchor="Node Transitioned from "),
    LogPattern(
        "container_killed",
        rf"(?P<container>{CONTAINER}) Container Transitioned from [A-Z]+ to KILLED",
        anchor="Container Transitioned from ",
        prefilter="to KILLED",
    ),
    LogPattern(
        "am_expired",
        rf"Expired:(?P<attempt>appattempt_\d+_\d+_\d+) Timed out after (?P<silent>{N}) secs",
        anchor="Expired:appattempt",
    ),
    # YARN's NodeManager, also when quoted in diagnostics: Hadoop 3, Hadoop 2
    LogPattern(
        "container_over_limit",
        rf"{_WHO}\d+B beyond the '(?P<which>\w+)' memory limit\.{_HOW_MUCH}",
        anchor="memory limit. Current usage",
        anywhere=True,
    ),
    LogPattern(
        "container_over_limit",
        rf"{_WHO}beyond (?P<which>\w+) memory limits\.{_HOW_MUCH}",
        anchor="memory limits. Current usage",
        anywhere=True,
    ),
    # Kubernetes events, whose messages have no head
    LogPattern(
        "node_lost",
        r"Node (?P<node>\S+) status is now: NodeNotReady",
        anchor="status is now: NodeNotReady",
        anywhere=True,
    ),
    LogPattern(
        "node_back", r"Node (?P<node>\S+) status is now: NodeReady", anchor="status is now: NodeReady", anywhere=True
    ),
)
