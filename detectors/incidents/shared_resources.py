"""What several clusters may share: the broker, host, storage or service that an incident is about.

State is kept by cluster, so no detector sees two of them. The driver writes into the stream which open incidents are
about such a resource, in lines of `flinkwatch_itself.py`, and `platform_incident` reads them. It repeats them from time
to time: a line that was lost does no harm, and neither does one that comes twice.
"""

from detectors.events.names import short
from detectors.events.vocabulary import flinkwatch_itself
from detectors.incident import Finding, Transition
from detectors.values.bounded import put_bounded

PLATFORM = "platform_incident"
"""The kind of the incidents that several clusters share."""
REPEAT_MS = 60_000
"""How often the lines of what is open are repeated: an incident without data would become stale."""

_MAX_RESOURCES = 20
_MAX_OPEN = 10_000
_OF_KIND = {
    "broker_unreachable": "broker",
    "ha_connection_lost": "service",
    "node_lost": "host",
    "disk_full": "host",
}
"""The key of a finding's entity that names what it is about. The key `storage` counts for any kind."""
_ITSELF = ("localhost", "127.", "::1", "node ")


def resources_of(transition: Transition) -> tuple[str, ...]:
    """The shared resources that an incident is about, by its cause: such as `broker/kafka-1:9092`; often none."""
    about = [f for f in transition.findings if f.kind == transition.cause]
    return tuple(sorted({name for finding in about for name in _named(finding)})[:_MAX_RESOURCES])


def clusters_of(transition: Transition) -> tuple[str, ...]:
    """The clusters that an incident is about: its own, or those that share it."""
    return _listed(transition, "clusters") or (transition.cluster,)


def is_shared(transition: Transition) -> bool:
    """Whether it is an incident of several clusters. Lines like the driver's in the logs of a cluster prove nothing."""
    return transition.cause == PLATFORM and transition.cluster == flinkwatch_itself.CLUSTER


def is_part(transition: Transition, whole: Transition) -> bool:
    """Whether a cluster's incident is part of an open one of several clusters: by its ID, or by what both are about.

    An incident that has just joined is listed a little later.
    """
    resources = resources_of(transition)
    return bool(resources) and (
        transition.incident in _listed(whole, "incidents") or any(r in _listed(whole, "resources") for r in resources)
    )


def _listed(transition: Transition, key: str) -> tuple[str, ...]:
    if not is_shared(transition):
        return ()
    listed = (f.entity.get(key, "") for f in transition.findings if f.kind == PLATFORM)
    return tuple(name for text in listed for name in text.split(", ") if name)


def _named(finding: Finding) -> list[str]:
    keys = dict.fromkeys(("storage", _OF_KIND.get(finding.kind, "storage")))
    named = [(key, name) for key in keys for name in finding.entity.get(key, "").split(", ")]
    # What every host calls itself, and a broker's number, are not the same thing in two clusters.
    own = [(key, name) for key, name in named if name and not name.startswith(_ITSELF)]
    return [f"{key}/{short(name) if key == 'host' else name}" for key, name in own]


class SharedTroubles:
    """The open incidents of all clusters about shared resources, and the last line about each."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def take(self, transition: Transition) -> list[str]:
        """The lines after a change of an incident: one if it is news. A silenced incident is no news."""
        incident, resources = transition.incident, resources_of(transition)
        ended = transition.transition == "resolved" or transition.severity == "info"
        if not resources or ended:
            known = self._lines.pop(incident, None) is not None
            return [flinkwatch_itself.resource_works(transition.cluster, incident)] if resources or known else []
        before = self._lines.get(incident)
        if before is None and transition.silence is not None:
            return []
        since = min(f.since for f in transition.findings if f.kind == transition.cause)
        line = flinkwatch_itself.resource_fails(
            transition.cluster, incident, transition.severity, max(0, since), resources
        )
        put_bounded(self._lines, incident, line, _MAX_OPEN)
        return [line] if line != before else []

    def gone(self, incident: str) -> list[str]:
        """The same after an incident was deleted."""
        known = self._lines.pop(incident, None) is not None
        return [flinkwatch_itself.resource_works("", incident)] if known else []

    def is_open(self, incident: str) -> bool:
        return incident in self._lines

    def repeated(self) -> list[str]:
        """The lines of all that is open."""
        return [*self._lines.values()]
