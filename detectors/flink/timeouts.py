"""The timeouts in force in a cluster, learned from its start-up lines and errors, else Flink's defaults.

They determine what follows the loss of a JobManager or of the leader election, and when.
"""

import re

import msgspec

from detectors.flink.facts import (
    ApplicationMasterExpired,
    Configured,
    Fact,
    NodeExpired,
    RegistrationTimedOut,
    SessionTimeout,
)

YARN_EXPIRY_MS = 600_000
"""YARN's default for nodes and application masters (yarn.nm.liveness-monitor.expiry-interval-ms, yarn.am.…)."""

_DURATION = re.compile(r"(\d+) ?([a-z]*)")
_ISO = re.compile(r"P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?")
_UNITS = (("ms", 1), ("mil", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000))
_LONGEST_MS = 86_400_000
_OPTIONS = {
    "taskmanager.registration.timeout": "registration",
    "heartbeat.timeout": "heartbeat",
    "high-availability.zookeeper.client.session-timeout": "session",
}


def flink_duration(text: str) -> int | None:
    """Parse a duration as Flink reads or prints it into ms; None if it is not one (`Inf`).

    >>> flink_duration("5 min"), flink_duration("PT5M"), flink_duration("300000 ms"), flink_duration("8s")
    (300000, 300000, 300000, 8000)
    """
    text = text.strip()
    if (iso := _ISO.fullmatch(text)) and text[-1] not in "PT":
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups())
        return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000
    found = _DURATION.fullmatch(text.lower())
    if found is None:
        return None
    unit = next((ms for word, ms in _UNITS if found[2].startswith(word)), 0 if found[2] else 1)
    return int(found[1]) * unit if unit else None


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
                self._set("session", flink_duration(fact.session))
            case RegistrationTimedOut():
                self._set("registration", flink_duration(fact.duration))
            case ApplicationMasterExpired() | NodeExpired() if fact.missing_s:
                self._set("expiry", fact.missing_s * 1_000)

    def _set(self, name: str, value: int | None) -> None:
        if not name or not value:
            return
        setattr(self, name, min(value, _LONGEST_MS))
        if name not in self.known:
            self.known.append(name)
