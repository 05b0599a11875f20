"""A notification log that is new, or was lost: which records were written before it, and which messages exist.

The first entry of a partition's log says where it began. Incidents of earlier records are looked up in the channel, so
that none gets a second message. Those that have resolved are not sent, and old ones go into a digest.
"""

from collections.abc import Iterable

import structlog

from detectors.incident import Transition
from sinks.contract.outcome import Found, RetryAfter
from sinks.contract.sink import EditingSink, Sink
from sinks.delivery.notification_log import Entry, NotificationLog

log = structlog.get_logger()

LOG_START = "~start"
"""The name under which the log keeps where it began."""

BACKLOG_MS = 3_600_000
"""What was written before the log began and has not changed for so long gets no message of its own."""

# Begins the names of entries that are not about an incident.
_OWN = "~"
_LOOK_BACK_MS = 7 * 86_400_000
_TRIES = 8
_RETRY_S = 15.0


class Bootstrap:
    def __init__(self, sink: Sink, notification_log: NotificationLog, channel: str) -> None:
        self._readable = sink if isinstance(sink, EditingSink) and sink.traits.can_look_up and channel else None
        self._channel = channel
        self._log = notification_log
        self._found: dict[str, Found] | None = None
        self._tries = 0

    def is_new(self, partition: int) -> bool:
        """Whether the log of a partition has no start yet; then all records are read from the beginning."""
        return self._log.get(partition, LOG_START) is None

    def start_log(self, partition: int, end: int, now_ms: int) -> None:
        """Writes that the log begins at offset `end`. Raises KafkaError."""
        log.info("notification log is empty, as on a first start", partition=partition, incidents_before_it=end)
        self._log.set(partition, LOG_START, Entry(incident=LOG_START, seq=1, state="sent", at=now_ms, offset=end))

    def mark_unknown(self, partition: int, incidents: Iterable[str], now_ms: int) -> None:
        """Their entries are lost, so they may have messages, which are looked up before anything is sent."""
        for incident in incidents:
            if not incident.startswith(_OWN):
                entry = Entry(incident=incident, seq=0, state="unknown", at=now_ms - _LOOK_BACK_MS)
                self._log.remember(partition, incident, entry)

    def predates_log(self, partition: int, offset: int) -> bool:
        """Whether a record was written before the log began."""
        start = self._log.get(partition, LOG_START)
        return start is not None and offset < start.offset

    def opened_before_log(self, partition: int, transition: Transition) -> bool:
        """Whether an incident that the log does not know was sent before it began, from records that are deleted."""
        start = self._log.get(partition, LOG_START)
        # A silenced incident leaves nothing in the log.
        silenced = transition.silence is not None or transition.silenced_before is not None
        older = start is not None and transition.seq > 1 and transition.opened_at < start.at
        return self._readable is not None and older and not silenced

    def read_channel(self, now_ms: int) -> float | None:
        """Looks once which messages exist in the channel. Seconds until the next try, None when it is done."""
        if self._found is not None:
            return None
        found = self._readable.recent(self._channel, now_ms - _LOOK_BACK_MS) if self._readable is not None else {}
        if isinstance(found, RetryAfter):
            self._tries += 1
            if self._tries < _TRIES:
                log.warning("channel cannot be read yet", reason=found.reason)
                return found.seconds or _RETRY_S
            log.error("channel cannot be read, messages in it may be doubled", reason=found.reason)
            found = {}
        self._found = found
        return None

    def adopt_existing_message(self, partition: int, incident: str, now_ms: int) -> Entry | None:
        """The entry of an incident whose message was found in the channel. Raises KafkaError."""
        found = (self._found or {}).get(incident)
        if found is None:
            return None
        entry = Entry(incident=incident, seq=found.seq, state="sent", at=now_ms, channel=found.channel, ts=found.ts)
        self._log.set_soon(partition, incident, entry)
        return entry
