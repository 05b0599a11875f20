"""The timeouts in force in a cluster, learned from its start-up lines and errors, else Flink's defaults.

They determine what follows the loss of a JobManager or of the leader election, and when.
"""

import msgspec

from detectors.flink.facts import (
    ApplicationMasterExpired,
    Configured,
    Fact,
    NodeExpired,
    RegistrationTimedOut,
    SessionTimeout,
)
from detectors.values.durations import flink_duration

YARN_EXPIRY_MS = 600_000
"""YARN's default for nodes and application masters (yarn.nm.liveness-monitor.expiry-interval-ms, yarn.am.…)."""

_LONGEST_MS = 86_400_000
_OPTIONS = {
    "taskmanager.registration.timeout": "registration",
    "heartbeat.timeout": "heartbeat",
    "high-availability.zookeeper.client.session-timeout": "session",
}


class Timeouts(msgspec.Struct, array_like=True):
    """Timeouts in ms. `known` lists those that a line has shown; the others are defaults."""

    registration: int = 300_000
    heartbeat: int = 50_000
    session: int = 60_000
    expiry: int = YARN_EXPIRY_MS
    known: list[str] = []

    def learn(self, fact: Fact) -> None:
        """Learn a timeout from a line, if it has one."""
        match fact:
            case Configured():
                self._set(_OPTIONS.get(fact.key, ""), flink_duration(fact.value))
            case SessionTimeout():
                self._set("session", fact.session)
            case RegistrationTimedOut():
                self._set("registration", flink_duration(fact.duration))
            case ApplicationMasterExpired() | NodeExpired() if fact.missing_s:
                self._set("expiry", fact.missing_s * 1_000)

    def _set(self, name: str, value: int) -> None:
        if not name or not value:
            return
        setattr(self, name, min(value, _LONGEST_MS))
        if name not in self.known:
            self.known.append(name)
