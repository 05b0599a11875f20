"""A ledger that is new, or was lost: what of the incidents topic is history, and which messages stand already.

The first entry of a partition's ledger says where it began. Records before that were written while nobody kept a
ledger, or while one did that is gone: those incidents are looked up in the channel, what is over is not told, and what
is old is told in a digest, so that no flood of old messages follows.
"""

from collections.abc import Iterable

import structlog

from detectors.incident import Transition
from sinks.contract.outcome import Found, RetryAfter
from sinks.contract.sink import Sink
from sinks.delivery.notification_log import Entry, Ledger

log = structlog.get_logger()

BORN = "~born"
"""The name under which a ledger keeps where it began."""

OLD_MS = 3_600_000
"""What has not changed for so long is not told anew with a message of its own."""

# Begins the names of what is in the ledger and is no incident.
_OWN = "~"
_LOOK_BACK_MS = 7 * 86_400_000
_TRIES = 8
_RETRY_S = 15.0


class Recovery:
    """What one lane knows of the time before its ledger."""

    def __init__(self, sink: Sink, ledger: Ledger, channel: str) -> None:
        """`channel` is the channel ID to look in, empty when it is not known."""
        self._sink = sink
        self._ledger = ledger
        self._channel = channel
        self._found: dict[str, Found] | None = None
        self._tries = 0

    def begins(self, partition: int) -> bool:
        """Whether the ledger of a partition has no beginning yet: then all records are to be read anew."""
        return self._ledger.get(partition, BORN) is None

    def begin(self, partition: int, end: int, now_ms: int) -> None:
        """Writes down that the ledger begins at offset `end`. Raises KafkaError."""
        log.info("notification log is new", partition=partition, incidents_before_it=end)
        entry = Entry(incident=BORN, seq=1, state="sent", at=now_ms, offset=end)
        self._ledger.set(partition, BORN, entry)

    def doubt(self, partition: int, incidents: Iterable[str], now_ms: int) -> None:
        """Their entries cannot be read, so they may have messages: these are looked up before anything is sent."""
        for incident in incidents:
            if not incident.startswith(_OWN):
                entry = Entry(incident=incident, seq=0, state="unknown", at=now_ms - _LOOK_BACK_MS)
                self._ledger.remember(partition, incident, entry)

    def is_history(self, partition: int, offset: int) -> bool:
        """Whether a record was written before the ledger began."""
        born = self._ledger.get(partition, BORN)
        return born is not None and offset < born.offset

    def is_older_than_the_log(self, partition: int, transition: Transition) -> bool:
        """Whether an incident that the log does not know was reported before it began, in records that are gone."""
        born = self._ledger.get(partition, BORN)
        can_look = self._sink.traits.looks_up and bool(self._channel)
        # What was silenced leaves nothing in the log.
        silenced = transition.silence is not None or transition.silenced_before is not None
        older = born is not None and transition.seq > 1 and transition.opened_at < born.at
        return can_look and older and not silenced

    def look(self, now_ms: int) -> float | None:
        """Looks once what stands in the channel. Seconds until the next try, None when it is done."""
        if self._found is not None:
            return None
        if not self._sink.traits.looks_up or not self._channel:
            self._found = {}
            return None
        found = self._sink.recent(self._channel, now_ms - _LOOK_BACK_MS)
        if isinstance(found, RetryAfter):
            self._tries += 1
            if self._tries < _TRIES:
                log.warning("channel cannot be read yet", reason=found.reason)
                return found.seconds or _RETRY_S
            log.error("channel cannot be read, messages in it may be doubled", reason=found.reason)
            found = {}
        self._found = found
        return None

    def adopt(self, partition: int, incident: str, now_ms: int) -> Entry | None:
        """The entry of an incident whose message was found in the channel. Raises KafkaError."""
        found = (self._found or {}).get(incident)
        if found is None:
            return None
        entry = Entry(incident=incident, seq=found.seq, state="sent", at=now_ms, channel=found.channel, ts=found.ts)
        self._ledger.set_soon(partition, incident, entry)
        return entry
