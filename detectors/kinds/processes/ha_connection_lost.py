"""The leader election has lost its store: ZooKeeper does not answer, or the lock in Kubernetes is not renewed.

Opens when a connection to ZooKeeper has been suspended for `suspended_for`; at once when its session is lost, when
Curator gives up, or when leadership is revoked without an orderly end; and when the Kubernetes lock could not be
renewed twice. It also opens when ZooKeeper could never be reached. One finding for each cluster, with the affected
processes. Not reported: a connection that is back within seconds, as in a rolling restart of ZooKeeper; anything after
SIGTERM; `Authentication failed` and SASL or JAAS warnings, which come with every connect. Resolved when all processes
are connected again, a leader is granted, or a checkpoint completes (it is written to the same store).

Why it matters: a leader steps down 10 ms after the connection is suspended, its jobs are suspended, and it exits some
20 s later. TaskManagers follow at their registration timeout. The forecast says when.

Reference: Flink, `high-availability.zookeeper.client.tolerate-suspended-connections`; post-mortem 004.
"""

from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.flink import facts
from detectors.flink.facts import Fact
from detectors.incident import Evidence, Finding, Forecast
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_SOURCES = 200
_MAX_RECORDS = 5
_LEVELS = ("lock", "suspended", "revoked", "lost", "gave_up")
_REASONS = {
    "lock": "the lock in Kubernetes could not be renewed",
    "suspended": "ZooKeeper does not answer",
    "revoked": "leadership was revoked",
    "lost": "the session with ZooKeeper was lost",
    "gave_up": "ZooKeeper could not be reached, and the client gave up",
}
_SERVICES = {"lock": "Kubernetes API", "suspended": "ZooKeeper", "lost": "ZooKeeper", "gave_up": "ZooKeeper"}

_View: TypeAlias = "View[HaConnectionLost.Config, HaConnectionLost.State]"


class ConnectionTrouble(msgspec.Struct, array_like=True):
    """The trouble that one process reports: event time of its first and last line, clock of the first, worst level."""

    since: int
    last: int
    at: int
    level: str
    host: str
    times: int = 1
    records: list[Evidence] = []


class HaConnectionLost(Detector):
    """Detects a leader election that has lost ZooKeeper or its Kubernetes lock."""

    kind = "ha_connection_lost"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `ha_connection_lost`."""

        suspended_for: Duration = threshold(
            5_000, "Time from which a suspended connection is reported. A client that only changes servers is faster."
        )
        confirmation_delay: Duration = threshold(
            2_000, "Time to wait, after a session was lost, for a line of another source that shows an orderly end."
        )
        lock_for: Duration = threshold(
            15_000,
            "Time within which two failures to renew the Kubernetes lock are an incident. The default is Flink's "
            "default renew deadline.",
        )
        orderly_for: Duration = threshold(
            60_000, "Time after an orderly end in which a lost connection is attributed to that end."
        )

    class State(msgspec.Struct, array_like=True):
        """Troubles by source. `since` is the event time of the first while a finding is open, else 0."""

        troubles: dict[str, ConnectionTrouble] = {}
        since: int = 0
        reported: str = ""
        ended: int = LONG_AGO
        orderly: dict[str, int] = {}

    config: Config

    @on(facts.LeaderElectionTrouble)
    def troubled(self, view: _View, fact: facts.LeaderElectionTrouble) -> None:
        state, source, time = view.state, view.event.source, view.time
        ended = state.orderly.get(source, LONG_AGO)
        if time <= state.ended or view.clock - ended <= self.config.orderly_for:
            return
        trouble = state.troubles.get(source)
        if trouble is None:
            trouble = ConnectionTrouble(time, time, view.clock, fact.level, view.event.host)
            put_bounded(state.troubles, source, trouble, _MAX_SOURCES)
        elif time > trouble.last:
            trouble.times += 1
        trouble.since, trouble.last = min(trouble.since, time), max(trouble.last, time)
        if _LEVELS.index(fact.level) > _LEVELS.index(trouble.level):
            # From here on another wait applies.
            trouble.level, trouble.at = fact.level, view.clock if fact.level in ("lost", "gave_up") else trouble.at
        append_new(trouble.records, view.record(), _MAX_RECORDS)
        if state.since and (news := self._worst(state) + str(len(state.troubles))) != state.reported:
            view.report(self._finding(view))
            state.reported = news

    @on(facts.LeaderElectionConnected)
    def connected(self, view: _View, _: Fact) -> None:
        state, source = view.state, view.event.source
        trouble = state.troubles.get(source)
        if trouble is None or view.time < trouble.last:
            return
        closing = self._finding(view) if state.since else None
        del state.troubles[source]
        if closing is not None and state.troubles:
            view.report(self._finding(view))
        elif closing is not None:
            self._close(view, closing, "the connection was restored")

    @on(facts.LeadershipGranted, needs="troubles")
    def leadership_granted(self, view: _View, _: Fact) -> None:
        self._recovered(view, "leadership was granted again")

    @on(facts.CheckpointCompleted, needs="troubles")
    def completed(self, view: _View, fact: facts.CheckpointCompleted) -> None:
        self._recovered(view, f"checkpoint {fact.number} completed")

    @on(facts.ProcessStarted)
    def process_started(self, view: _View, _: Fact) -> None:
        view.state.orderly.pop(view.event.source, None)

    @on(facts.ProcessSignalled, facts.ClusterEnding)
    def ended(self, view: _View, end: facts.ProcessSignalled | facts.ClusterEnding) -> None:
        """A process that ends loses its connection too. Only an orderly end disproves what it reported before."""
        state, source = view.state, view.event.source
        trouble = state.troubles.get(source)
        if trouble is None or trouble.level != "gave_up":
            put_bounded(state.orderly, source, view.clock, _MAX_SOURCES)
            if not state.since and end.how == "orderly":
                state.troubles.pop(source, None)

    def on_deadline(self, view: _View) -> None:
        """Report connections that did not come back in time, and forget a single failure to renew a lock."""
        state = view.state
        for source, trouble in list(state.troubles.items()):
            if trouble.level == "lock" and trouble.times < 2 and view.clock >= trouble.at + self.config.lock_for:
                del state.troubles[source]
        if not state.since and any(view.clock >= self._due(t) for t in state.troubles.values()):
            state.since = min(t.since for t in state.troubles.values())
            view.report(self._finding(view))

    def next_deadline(self, view: _View) -> int | None:
        """When the first trouble becomes an incident, or is forgotten."""
        troubles = view.state.troubles.values()
        times = [self._due(t) for t in troubles] if not view.state.since else []
        times += [t.at + self.config.lock_for for t in troubles if t.level == "lock" and t.times < 2]
        return min(times, default=None)

    def _due(self, trouble: ConnectionTrouble) -> int:
        if trouble.level == "lock" and trouble.times < 2:
            return trouble.at + self.config.lock_for + 1
        waits = trouble.level in ("suspended", "revoked")
        return trouble.at + (self.config.suspended_for if waits else self.config.confirmation_delay)

    def _recovered(self, view: _View, why: str) -> None:
        """A line after the last trouble proves that the store works again."""
        state = view.state
        if state.troubles and view.time > max(t.last for t in state.troubles.values()):
            if state.since:
                self._close(view, self._finding(view), why)
            state.troubles.clear()

    def _close(self, view: _View, finding: Finding, why: str) -> None:
        view.close(finding, why)
        view.state.since, view.state.reported, view.state.ended = 0, "", view.time

    def _worst(self, state: State) -> str:
        return max((t.level for t in state.troubles.values()), key=_LEVELS.index, default="suspended")

    def _finding(self, view: _View) -> Finding:
        state, topology = view.state, view.topology
        worst = self._worst(state)
        troubles = sorted(state.troubles.items(), key=lambda t: (-_LEVELS.index(t[1].level), t[1].since))
        names = list(dict.fromkeys(t.host or source for source, t in troubles))
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        hosts = {t.host for t in state.troubles.values()}
        running = [(j, k.name) for j, k in topology.jobs.items() if k.state in ("RUNNING", "RESTARTING", "SUSPENDED")]
        job, name = running[0] if len(running) == 1 else ("", "")
        return view.finding(
            "leader election",
            {
                "host": hosts.pop() if len(hosts) == 1 else "",
                "job_id": job,
                "job_name": name,
                "service": _SERVICES.get(worst, ""),
            },
            since=state.since,
            severity="warning" if worst == "suspended" else "critical",
            summary=f"leader election is broken on {shown}: {_REASONS[worst]}",
            confidence="fair" if worst == "suspended" else "sure",
            evidence=[r for _, t in troubles for r in t.records[-2:]][:_MAX_RECORDS],
            forecast=self._forecast(view, worst),
            advice="Check that ZooKeeper has a quorum (or that the Kubernetes API answers) and that the hosts above "
            "can reach it. Jobs are suspended while there is no leader, and resume from the last completed "
            "checkpoint. Do not delete anything in the high-availability store. To prevent it: three or "
            "more ZooKeeper servers, a longer high-availability.zookeeper.client.session-timeout, and "
            "high-availability.zookeeper.client.tolerate-suspended-connections: true.",
        )

    def _forecast(self, view: _View, worst: str) -> Forecast:
        limits = view.topology.timeouts
        first = min(t.since for t in view.state.troubles.values())
        if worst in ("suspended", "lock"):
            limit = limits.session if worst == "suspended" else self.config.lock_for
            what = f"the session expires and leadership is lost (timeout {humanize(limit)})"
            return Forecast(what, first + limit, first + limit * 2 // 3, first + limit)
        at = first + limits.registration
        what = (
            "the TaskManagers exit unless a leader is elected by then (registration timeout "
            f"{humanize(limits.registration)})"
        )
        return Forecast(what, at, at, at + limits.heartbeat)
