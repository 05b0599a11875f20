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

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink import timeouts
from detectors.flink.timeouts import Timeouts
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Forecast
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_SOURCES = 200
_MAX_RECORDS = 5
_LEVELS = ("lock", "suspended", "revoked", "lost", "gave_up")
_MEANINGS = {
    "ha_lock_failed": "lock",
    "ha_suspended": "suspended",
    "leader_revoked": "revoked",
    "ha_lost": "lost",
    "ha_gave_up": "gave_up",
}
_REASONS = {
    "lock": "the lock in Kubernetes could not be renewed",
    "suspended": "ZooKeeper does not answer",
    "revoked": "leadership was revoked",
    "lost": "the session with ZooKeeper was lost",
    "gave_up": "ZooKeeper could not be reached, and the client gave up",
}


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
    event_types = frozenset(
        {
            *_MEANINGS,
            *timeouts.MEANINGS,
            "ha_connected",
            "leader_granted",
            "checkpoint_completed",
            "process_signalled",
            "cluster_ending",
            "process_version",
        }
    ) - {"node_lost"}

    class Config(DetectorConfig):
        """Settings of the detector `ha_connection_lost`."""

        suspended_for: Duration = Field(
            5_000,
            description="Time from which a suspended connection is reported. A client that only changes servers is "
            "faster.",
        )
        confirmation_delay: Duration = Field(
            2_000,
            description="Time to wait, after a session was lost, for a line of another source that shows an orderly "
            "end.",
        )
        lock_for: Duration = Field(
            15_000,
            description="Time within which two failures to renew the Kubernetes lock are an incident. The default is "
            "Flink's default renew deadline.",
        )
        orderly_for: Duration = Field(
            60_000, description="Time after an orderly end in which a lost connection is attributed to that end."
        )

    class State(msgspec.Struct, array_like=True):
        """Troubles by source. `since` is the event time of the first while a finding is open, else 0."""

        troubles: dict[str, ConnectionTrouble] = {}
        since: int = 0
        reported: str = ""
        ended: int = LONG_AGO
        orderly: dict[str, int] = {}
        starts: dict[str, str] = {}
        timeouts: Timeouts = msgspec.field(default_factory=Timeouts)

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        state.timeouts.learn(event)
        match event.event_type:
            case "process_version":
                put_bounded(state.starts, event.source, event.fields.get("what", ""), _MAX_SOURCES)
                state.orderly.pop(event.source, None)
            case "process_signalled" | "cluster_ending":
                self._orderly(state, event, now)
            case "ha_connected":
                trouble = state.troubles.get(event.source)
                if trouble is not None and now.time >= trouble.last:
                    yield from self._connected(state, event.source, now, topology)
            case "leader_granted":
                yield from self._recovered(state, now, topology, "leadership was granted again")
            case "checkpoint_completed":
                why = f"checkpoint {event.fields.get('checkpoint', '')} completed"
                yield from self._recovered(state, now, topology, why)
            case event_type if event_type in _MEANINGS:
                yield from self._troubled(state, event, _MEANINGS[event_type], now, topology)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report connections that did not come back in time, and forget a single failure to renew a lock."""
        for source, trouble in list(state.troubles.items()):
            if trouble.level == "lock" and trouble.times < 2 and now >= trouble.at + self.config.lock_for:
                del state.troubles[source]
        if not state.since and any(now >= self._due(t) for t in state.troubles.values()):
            state.since = min(t.since for t in state.troubles.values())
            yield self._finding(state, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When the first trouble becomes an incident, or is forgotten."""
        times = [self._due(t) for t in state.troubles.values()] if not state.since else []
        times += [t.at + self.config.lock_for for t in state.troubles.values() if t.level == "lock" and t.times < 2]
        return min(times, default=None)

    def _due(self, trouble: ConnectionTrouble) -> int:
        wait = {"suspended": self.config.suspended_for, "revoked": self.config.suspended_for}
        if trouble.level == "lock" and trouble.times < 2:
            return trouble.at + self.config.lock_for + 1
        return trouble.at + wait.get(trouble.level, self.config.confirmation_delay)

    def _orderly(self, state: State, event: LogEvent, now: Now) -> None:
        """A process that is stopped loses its connection too. After a client gave up, the end only looks orderly."""
        trouble = state.troubles.get(event.source)
        if trouble is not None and trouble.level == "gave_up":
            return
        put_bounded(state.orderly, event.source, now.clock, _MAX_SOURCES)
        if not state.since:
            state.troubles.pop(event.source, None)

    def _troubled(self, state: State, event: LogEvent, level: str, now: Now, topology: Topology) -> Iterator[Finding]:
        ended = state.orderly.get(event.source, LONG_AGO)
        if now.time <= state.ended or now.clock - ended <= self.config.orderly_for:
            return
        trouble = state.troubles.get(event.source)
        if trouble is None:
            trouble = ConnectionTrouble(now.time, now.time, now.clock, level, event.host)
            put_bounded(state.troubles, event.source, trouble, _MAX_SOURCES)
        elif now.time > trouble.last:
            trouble.times += 1
        trouble.since, trouble.last = min(trouble.since, now.time), max(trouble.last, now.time)
        if _LEVELS.index(level) > _LEVELS.index(trouble.level):
            # From here on another wait applies.
            trouble.level, trouble.at = level, now.clock if level in ("lost", "gave_up") else trouble.at
        record = evidence(event, now.time)
        if len(trouble.records) < _MAX_RECORDS and record not in trouble.records:
            trouble.records.append(record)
        if state.since and (news := self._worst(state) + str(len(state.troubles))) != state.reported:
            yield self._finding(state, now.clock, topology)
            state.reported = news

    def _connected(self, state: State, source: str, now: Now, topology: Topology) -> Iterator[Finding]:
        closing = self._finding(state, now.clock, topology) if state.since else None
        del state.troubles[source]
        if closing is None:
            return
        if state.troubles:
            yield self._finding(state, now.clock, topology)
        else:
            yield from self._close(state, closing, now, "the connection was restored")

    def _recovered(self, state: State, now: Now, topology: Topology, why: str) -> Iterator[Finding]:
        """A line after the last trouble proves that the store works again."""
        if not state.troubles or now.time <= max(t.last for t in state.troubles.values()):
            return
        if state.since:
            yield from self._close(state, self._finding(state, now.clock, topology), now, why)
        state.troubles.clear()

    def _close(self, state: State, finding: Finding, now: Now, why: str) -> Iterator[Finding]:
        finding.closed_at, finding.closed_because = now.clock, why
        state.since, state.reported, state.ended = 0, "", now.time
        yield finding

    def _worst(self, state: State) -> str:
        return max((t.level for t in state.troubles.values()), key=_LEVELS.index, default="suspended")

    def _finding(self, state: State, now: int, topology: Topology) -> Finding:
        worst = self._worst(state)
        troubles = sorted(state.troubles.items(), key=lambda t: (-_LEVELS.index(t[1].level), t[1].since))
        names = list(dict.fromkeys(t.host or source for source, t in troubles))
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        hosts = {t.host for t in state.troubles.values()}
        running = [(j, k.name) for j, k in topology.jobs.items() if k.state in ("RUNNING", "RESTARTING", "SUSPENDED")]
        job, name = running[0] if len(running) == 1 else ("", "")
        return Finding(
            kind=self.kind,
            subject="leader election",
            entity={"host": hosts.pop() if len(hosts) == 1 else "", "job_id": job, "job_name": name},
            since=state.since,
            at=now,
            severity="warning" if worst == "suspended" else "critical",
            summary=f"leader election of {shown} is broken: {_REASONS[worst]}",
            confidence="fair" if worst == "suspended" else "sure",
            evidence=[r for _, t in troubles for r in t.records[-2:]][:_MAX_RECORDS],
            forecast=self._forecast(state, worst),
            advice="Check that ZooKeeper has a quorum (or that the Kubernetes API answers) and that the hosts named "
            "can reach it. Jobs are suspended while there is no leader, and resume from the last completed "
            "checkpoint. Do not delete anything in the high-availability store. For good: an ensemble of three or "
            "more, a longer session timeout, tolerate-suspended-connections.",
        )

    def _forecast(self, state: State, worst: str) -> Forecast:
        limits = state.timeouts
        first = min(t.since for t in state.troubles.values())
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
