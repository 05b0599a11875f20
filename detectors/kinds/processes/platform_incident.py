"""Several clusters have an incident about the same broker, host, storage or service: it fails, not the clusters.

Opens when incidents of at least `min_clusters` clusters name the same resource and began `within` of each other: Kafka
brokers of `broker_unreachable`, hosts of `node_lost` and `disk_full`, and ZooKeeper or the Kubernetes API of
`ha_connection_lost`, which logs do not name, so that it counts as one. Further clusters join for as long as it is open,
and so does one that has the trouble again `within` of its end. Resolved when none of these incidents is open any more.

Not reported: one cluster alone; clusters that merely lose TaskManagers at the same time; the address that a host has
for itself; incidents that are silenced. It belongs to the cluster `flinkwatch`, whose lines the driver writes
(`shared_resources.py`). Receivers that get it are not notified of the clusters' own incidents.

Why it matters: one repair instead of one for each cluster, and one message instead of many. Reference: Alertmanager,
"Grouping" and "Inhibition".
"""

from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.flink.facts import SharedResourceFails, SharedResourceWorks
from detectors.incident import SEVERITIES, Evidence, Finding, Severity
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import Duration

_MAX_TROUBLES, _MAX_PLATFORMS, _MAX_MEMBERS = 1_000, 100, 200
_MAX_RESOURCES = 50
_MAX_RECORDS = _MAX_SHOWN = 5

_View: TypeAlias = "View[PlatformIncident.Config, PlatformIncident.State]"


class ClusterTrouble(msgspec.Struct, array_like=True):
    """An open incident of a cluster: event time of its first symptom, and the clock of its first line.

    `platform` is the subject of the finding that it is part of. `compared`: it was compared with those of others.
    """

    cluster: str
    since: int
    at: int
    severity: Severity
    resources: list[str]
    record: Evidence
    platform: str = ""
    compared: bool = False


class Platform(msgspec.Struct, array_like=True):
    """A finding: what its incidents are about, and all incidents and clusters that were ever part of it.

    `ended` is the clock at which the last of them ended, 0 while it is open.
    """

    since: int
    resources: list[str] = []
    incidents: list[str] = []
    clusters: list[str] = []
    records: list[Evidence] = []
    shown: str = ""
    ended: int = 0


class PlatformIncident(Detector):
    """Detects resources that fail under several clusters."""

    kind = "platform_incident"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `platform_incident`."""

        min_clusters: int = threshold(2, "Number of clusters with an incident about the same resource.", ge=2)
        within: Duration = threshold(
            300_000, "Longest time between the first symptoms of their incidents. Clusters notice it at their own pace."
        )
        confirmation_delay: Duration = threshold(
            5_000, "Time to wait for incidents of further clusters, so that the first message names most of them."
        )

    class State(msgspec.Struct, array_like=True):
        """Troubles by incident, and findings by resource."""

        troubles: dict[str, ClusterTrouble] = {}
        platforms: dict[str, Platform] = {}

    config: Config

    @on(SharedResourceFails)
    def fails(self, view: _View, fact: SharedResourceFails) -> None:
        state, resources, since = view.state, fact.resources[:_MAX_RESOURCES], min(fact.epoch, view.time)
        trouble = state.troubles.get(fact.incident)
        if trouble is None:
            record = view.record(f"{fact.cluster}: {', '.join(resources)}")
            trouble = ClusterTrouble(fact.cluster, since, view.clock, fact.severity, resources, record)
            if (dropped := put_bounded(state.troubles, fact.incident, trouble, _MAX_TROUBLES)) is not None:
                self._ended(view, dropped[1])
            return
        changed = (fact.severity, resources) != (trouble.severity, trouble.resources)
        trouble.severity, trouble.resources, trouble.since = fact.severity, resources, min(trouble.since, since)
        if changed and trouble.platform:
            self._report(view, trouble.platform)
        elif changed:
            trouble.at, trouble.compared = view.clock, False

    @on(SharedResourceWorks, needs="troubles")
    def works(self, view: _View, fact: SharedResourceWorks) -> None:
        trouble = view.state.troubles.pop(fact.incident, None)
        if trouble is not None:
            self._ended(view, trouble)

    def on_deadline(self, view: _View) -> None:
        """Compare new troubles with those of other clusters."""
        state = view.state
        for trouble in state.troubles.values():
            trouble.compared = trouble.compared or view.clock >= trouble.at + self.config.confirmation_delay
        for subject, platform in list(state.platforms.items()):
            if platform.ended and view.clock - platform.ended > self.config.within:
                del state.platforms[subject]
            else:
                self._join(view, subject)
        alone = {name for t in state.troubles.values() if not t.platform for name in t.resources}
        for name in sorted(alone):
            if name not in state.platforms and len(state.platforms) < _MAX_PLATFORMS and self._is_shared(state, name):
                state.platforms[name] = Platform(view.clock, [name])
                self._join(view, name)

    def next_deadline(self, view: _View) -> int | None:
        """When the first new trouble is compared."""
        new = [t.at for t in view.state.troubles.values() if not t.compared]
        return min(new) + self.config.confirmation_delay if new else None

    def _is_shared(self, state: State, name: str) -> bool:
        """Whether enough clusters have a trouble about it that began at nearly the same time."""
        about = [t for t in state.troubles.values() if not t.platform and name in t.resources]
        config, enough = self.config, self.config.min_clusters
        near = ({t.cluster for t in about if 0 <= t.since - first.since <= config.within} for first in about)
        return any(len(clusters) >= enough for clusters in near)

    def _join(self, view: _View, subject: str) -> None:
        """Take in what is about the same resources, or about resources of what was taken in."""
        state, platform = view.state, view.state.platforms[subject]
        while new := [
            (i, t)
            for i, t in state.troubles.items()
            if not t.platform and any(name in platform.resources for name in t.resources)
        ]:
            for incident, trouble in sorted(new, key=lambda one: (one[1].since, one[0])):
                trouble.platform, platform.ended = subject, 0
                platform.since = min(platform.since, trouble.since)
                append_new(platform.incidents, incident, _MAX_MEMBERS)
                append_new(platform.clusters, trouble.cluster, _MAX_MEMBERS)
                append_new(platform.records, trouble.record, _MAX_RECORDS)
                for name in trouble.resources:
                    append_new(platform.resources, name, _MAX_RESOURCES)
        if not platform.ended:
            self._report(view, subject)

    def _ended(self, view: _View, trouble: ClusterTrouble) -> None:
        """A trouble has ended; the last one ends the finding."""
        state, subject = view.state, trouble.platform
        if subject in state.platforms and not any(t.platform == subject for t in state.troubles.values()):
            view.close(self._finding(view, subject, trouble.severity), "it has ended in every cluster")
            state.platforms[subject].ended, state.platforms[subject].shown = view.clock, ""

    def _report(self, view: _View, subject: str) -> None:
        members = [t for t in view.state.troubles.values() if t.platform == subject]
        worst = max((t.severity for t in members), key=SEVERITIES.index)
        finding, platform = self._finding(view, subject, worst), view.state.platforms[subject]
        shown = f"{worst} {finding.summary} {len(platform.incidents)}"
        if shown != platform.shown:
            platform.shown = shown
            view.report(finding)

    def _finding(self, view: _View, subject: str, severity: Severity) -> Finding:
        platform = view.state.platforms[subject]
        kind, _, name = subject.partition("/")
        what = name if kind == "service" else f"{kind} {name}"
        more = len(platform.resources) - 1
        others = f" (and {more} more)" if more else ""
        clusters = sorted(platform.clusters)
        left = len(clusters) - _MAX_SHOWN
        listed = {"resources": platform.resources, "clusters": clusters, "incidents": platform.incidents}
        shown = ", ".join(clusters[:_MAX_SHOWN]) + (f" and {left} more" if left > 0 else "")
        return view.finding(
            subject,
            {key: ", ".join(names) for key, names in listed.items()},
            since=platform.since,
            severity=severity,
            summary=f"{what}{others} fails under {len(clusters)} clusters at once: {shown}",
            confidence="fair" if kind == "service" else "sure",
            evidence=platform.records,
            advice=f"Repair {what} once, and leave the jobs of these clusters running: they recover by themselves as "
            "soon as it works, or from their last completed checkpoint. Check what these clusters have in common "
            "besides it: a rack, a network, a disk, a maintenance. To prevent it: several brokers, hosts in several "
            "zones, and no resource that all clusters need and that exists only once.",
        )
