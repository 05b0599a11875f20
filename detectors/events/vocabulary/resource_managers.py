"""Log lines of YARN's ResourceManager and events of Kubernetes about nodes and containers.

`Expired:` lines of attempts and containers look like those of nodes, but only nodes have a port.
"""

from detectors.events.vocabulary.pattern import LogPattern, N

_NODE = r"(?P<node>[A-Za-z0-9_.\-]+:\d{1,5})"
_CONTAINER = r"(?P<container>container_(?:e\d+_)?\d+_\d+_\d+_\d+)"

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern("node_lost", "Timed out after ", rf"Expired:{_NODE} Timed out after (?P<silent>{N}) secs"),
    LogPattern("node_lost", "as it is now LOST", rf"Deactivating Node {_NODE} as it is now LOST"),
    LogPattern("node_lost", "Node Transitioned from ", rf"{_NODE} Node Transitioned from [A-Z]+ to LOST"),
    LogPattern("node_back", "Node Transitioned from ", rf"{_NODE} Node Transitioned from [A-Z]+ to RUNNING"),
    LogPattern(
        "container_killed",
        "Container Transitioned from ",
        rf"{_CONTAINER} Container Transitioned from [A-Z]+ to KILLED",
        prefilter="to KILLED",
    ),
    LogPattern(
        "am_expired",
        "Expired:appattempt",
        rf"Expired:(?P<attempt>appattempt_\d+_\d+_\d+) Timed out after (?P<silent>{N}) secs",
    ),
    # Kubernetes events, whose messages have no head
    LogPattern(
        "node_lost",
        "status is now: NodeNotReady",
        r"Node (?P<node>\S+) status is now: NodeNotReady",
        anywhere=True,
    ),
    LogPattern("node_back", "status is now: NodeReady", r"Node (?P<node>\S+) status is now: NodeReady", anywhere=True),
)
