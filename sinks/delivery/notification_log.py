"""The notification log: what was sent of each incident, in a compacted topic, so that a restart sends nothing again.

The promise: no incident is lost. If the answer to a call is lost, at most one message is doubled, and only if the
receiver does not allow flinkwatch to look the message up.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
import structlog
from kafka.errors import KafkaError

from detectors.values.decoding import UndecodableError, carried
from detectors.values.stored_format import StoredFormat
from sinks.contract import overview
from sinks.contract.digest import PREFIX, Folded
from sinks.contract.feedback import NO_MARKS, Marks
from sinks.contract.notified import NotifiedState, Whole
from sinks.contract.sink import MessageRef

State = Literal["intent", "sent", "unknown", "folded", "undelivered"]

log = structlog.get_logger()

_ACK_TIMEOUT_S = 10.0
_CLOSE_S = 2.0


class Entry(msgspec.Struct, frozen=True, kw_only=True, tag_field="version", tag=1):
    """What is known of one incident's message.

    `intent`: about to be sent; `sent`: the receiver has accepted it; `unknown`: sent without a clear answer; `folded`:
    reported in a digest only; `undelivered`: given up for now, for `reason`.
    `seq` is the transition that this is about, `offset` its place in the incidents topic, `at` when this was written
    (epoch ms). `channel` and `ts` name the existing message; they are empty while none is known to exist. `notified` is
    what that message reports. `folded`: a digest counts the incident, perhaps since before it had its own message.
    `resolved`: no transition follows `seq`. `silenced`: the incident is silenced, and its first message waits.
    `marks` are the answers of people that the message shows.
    """

    incident: str
    seq: Whole
    state: State
    at: Whole
    channel: str = ""
    ts: str = ""
    notified: NotifiedState | None = None
    offset: Whole = -1
    resolved: bool = False
    reason: str = ""
    folded: Folded | None = None
    silenced: bool = False
    marks: Marks = NO_MARKS

    @property
    def message(self) -> MessageRef | None:
        return MessageRef(self.channel, self.ts) if self.ts else None


class NotificationLog:
    """The entries of the partitions that this process owns, in memory and in the topic."""

    def __init__(self, producer: Any, topic: str, receiver: str) -> None:
        """`producer` is kafka-python's KafkaProducer, None for a log in memory. `receiver` is part of the keys."""
        self._producer = producer
        self._prefix = f"{receiver}/"
        self._entries: dict[int, dict[str, Entry]] = {}
        self._unflushed: dict[tuple[int, str], Any] = {}
        self.topic = topic
        # Whether the last write failed.
        self.is_failing = False

    @property
    def is_kept(self) -> bool:
        return self._producer is not None

    def load(self, partition: int, records: Iterable[tuple[bytes | None, bytes | None]]) -> list[str]:
        """Takes over a partition: `records` are all of its keys and values, oldest first.

        Returns the names whose newest entry cannot be read; there is none for them.
        """
        newest: dict[str, bytes | None] = {}
        for key, value in records:
            name = (key or b"").decode("utf-8", "replace")
            if name.startswith(self._prefix):
                newest[name.removeprefix(self._prefix)] = value
        found = {incident: _read(incident, value) for incident, value in newest.items() if value is not None}
        self._entries[partition] = {incident: entry for incident, entry in found.items() if entry is not None}
        return [incident for incident, entry in found.items() if entry is None]

    def drop(self, partition: int) -> None:
        """Forgets a partition that another process owns now."""
        self._entries.pop(partition, None)
        self._unflushed = {key: future for key, future in self._unflushed.items() if key[0] != partition}

    def partitions(self) -> list[int]:
        return sorted(self._entries)

    def get(self, partition: int, incident: str) -> Entry | None:
        return self._entries.get(partition, {}).get(incident)

    def entries(self) -> Iterator[tuple[int, Entry]]:
        for partition, entries in self._entries.items():
            for entry in entries.values():
                yield partition, entry

    def set(self, partition: int, incident: str, entry: Entry | None) -> None:
        """Writes `entry`, or with None that no message exists. Returns when the brokers have it.

        Raises kafka.errors.KafkaError if they do not take it. Memory has it nevertheless, so that this process does
        not send twice.
        """
        self.set_soon(partition, incident, entry)
        if self._producer is not None:
            self._wait(self._unflushed.pop((partition, incident)))

    def try_set(self, partition: int, incident: str, entry: Entry | None) -> bool:
        """`set`, but returns whether the brokers have it."""
        try:
            self.set(partition, incident, entry)
        except KafkaError as error:
            log.warning("notification log not written", incident=incident, error=type(error).__name__)
            return False
        return True

    def set_soon(self, partition: int, incident: str, entry: Entry | None) -> None:
        """Writes `entry`; `flush` finds out whether the brokers have it. Raises kafka.errors.KafkaError."""
        self.remember(partition, incident, entry)
        if self._producer is None:
            return
        value = None if entry is None else _encode(entry)
        key = (self._prefix + incident).encode()
        # Until the brokers have it.
        self.is_failing = True
        future = self._producer.send(self.topic, key=key, value=value, partition=partition)
        self.is_failing = False
        self._unflushed[partition, incident] = future

    def flush(self) -> None:
        """Returns when the brokers have everything. Raises kafka.errors.KafkaError; then call it again."""
        for (partition, incident), future in list(self._unflushed.items()):
            try:
                self._wait(future)
            except KafkaError:
                self.set_soon(partition, incident, self.get(partition, incident))
                raise
            del self._unflushed[partition, incident]

    def write_again(self, producer: Any) -> None:
        """Writes every entry with a new producer, because the sequence numbers of the old one do not fit a new topic.

        Raises kafka.errors.KafkaError.
        """
        self.close()
        self._producer = producer
        self._unflushed.clear()
        for partition, entry in list(self.entries()):
            self.set_soon(partition, entry.incident, entry)

    def close(self) -> None:
        if self._producer is None:
            return
        try:
            self._producer.close(timeout=_CLOSE_S)
        except KafkaError as error:
            # The failure was reported at the write itself.
            log.warning("producer did not close in order", error=type(error).__name__)

    def _wait(self, future: Any) -> None:
        self.is_failing = True
        future.get(timeout=_ACK_TIMEOUT_S)
        self.is_failing = False

    def forget_resolved(self, before: int) -> None:
        """Removes what resolved before that time (epoch ms), digests whose incidents have all resolved, and overviews.

        Raises kafka.errors.KafkaError.
        """
        entries = list(self.entries())
        counted = {f"{PREFIX}{entry.folded.storm}" for _, entry in entries if entry.folded and not entry.resolved}
        for partition, entry in entries:
            digest_ended = entry.incident.startswith(PREFIX) and entry.incident not in counted
            ended = entry.resolved or digest_ended or entry.incident.startswith(overview.PREFIX)
            if ended and entry.state != "undelivered" and entry.at < before:
                self.set_soon(partition, entry.incident, None)

    def remember(self, partition: int, incident: str, entry: Entry | None) -> None:
        entries = self._entries.setdefault(partition, {})
        if entry is None:
            entries.pop(incident, None)
        else:
            entries[incident] = entry

    def known_channel(self) -> str:
        """A channel ID that the receiver has answered with, empty if there is none yet."""
        return next((entry.channel for _, entry in self.entries() if entry.channel), "")


def _read(incident: str, value: bytes) -> Entry | None:
    """None for what cannot be read or is about another incident."""
    try:
        entry = _decode(value)
    except UndecodableError:
        return None
    return entry if entry.incident == incident else None


ENTRY_FORMAT = StoredFormat("the notification log's entry", Entry, msgspec.json)
_decode = carried(ENTRY_FORMAT.decode)
_encode = msgspec.json.Encoder().encode
