"""The timeouts in force in a cluster, learned from its start-up lines and errors, else Flink's defaults.

They determine what follows the loss of a JobManager or of the leader election, and when.
"""

import msgspec

from detectors.events.event import LogEvent
from detectors.values.durations import flink_duration

MEANINGS = frozenset({"configured", "ha_session", "registration_timed_out", "am_expired", "node_lost"})

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

    def learn(self, event: LogEvent) -> None:
        fields = event.fields
        match event.event_type:
            case "configured":
                self._set(_OPTIONS.get(fields.get("key", ""), ""), flink_duration(fields.get("value", "")))
            case "ha_session":
                self._set("session", int(fields.get("session", "0")))
            case "registration_timed_out":
                self._set("registration", flink_duration(fields.get("duration", "")))
            case "am_expired" | "node_lost":
                self._set("expiry", 1_000 * int(fields.get("silent", "0")))

    def _set(self, name: str, value: int) -> None:
        if not name or not value:
            return
        setattr(self, name, min(value, _LONGEST_MS))
        if name not in self.known:
            self.known.append(name)
