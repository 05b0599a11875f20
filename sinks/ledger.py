"""The delivery ledger: what was sent of each incident, in a compacted topic: a restart sends nothing twice.

The promise: no incident is lost; after an answer that did not come, at most one message is doubled, and that only
when Slack does not let us look it up.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from detectors.incidents.incident import SEVERITIES, Severity, Transition
from sinks.told import Told

State = Literal["intent", "sent", "unknown"]

_ACK_TIMEOUT_S = 10.0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one incident's message.

    `intent`: about to be sent; `sent`: Slack has answered ok; `unknown`: sent without a clear answer.
    `seq` is the transition this is about, `at` when it was written (epoch ms). `channel` and `ts` name the message
    that stands in Slack; they are empty while none is known to stand. `told` is what that message has told.
    """

    incident: str
    seq: int
    state: State
    at: int
    channel: str = ""
    ts: str = ""
    told: Told | None = None
    version: int = 1


class Post(msgspec.Struct, frozen=True):
    """Send a new message; with `look_since` (epoch ms) first look whether an earlier try stands in the channel."""

    look_since: int | None = None


class Edit(msgspec.Struct, frozen=True):
    """Change the message that stands."""

    channel: str
    ts: str


class Skip(msgspec.Struct, frozen=True):
    """Nothing to send, and why."""

    reason: Literal["already sent", "a newer change was tried", "below min_severity", "goes on in another incident"]


def next_step(entry: Entry | None, transition: Transition, min_severity: Severity) -> Post | Edit | Skip:
    """What to do with a transition, given what the ledger knows of its incident."""
    if entry is None:
        if SEVERITIES.index(transition.severity) < SEVERITIES.index(min_severity):
            return Skip("below min_severity")
        if transition.part_of:
            return Skip("goes on in another incident")
        return Post()
    if entry.state == "sent" and entry.seq >= transition.seq:
        return Skip("already sent")
    if entry.seq > transition.seq:
        # The newer one is further on in the same partition and comes again.
        return Skip("a newer change was tried")
    if entry.ts:
        return Edit(entry.channel, entry.ts)
    return Post(look_since=entry.at)


class Ledger:
    """The entries of the partitions this process owns, in memory and in the topic."""

    def __init__(self, producer: Any, topic: str, integration: str) -> None:
        """`producer` is kafka-python's KafkaProducer; `integration` parts the ledgers of several sinks."""
        self._producer = producer
        self._topic = topic
        self._prefix = f"{integration}/"
        self._entries: dict[int, dict[str, Entry]] = {}

    def load(self, partition: int, records: Iterable[tuple[bytes | None, bytes | None]]) -> int:
        """Takes over a partition: `records` are all of its keys and values, oldest first.

        Returns how many could not be read; such an entry is treated as absent.
        """
        entries: dict[str, Entry] = {}
        unreadable = 0
        for key, value in records:
            name = (key or b"").decode("utf-8", "replace")
            if not name.startswith(self._prefix):
                continue
            incident = name.removeprefix(self._prefix)
            try:
                entry = None if value is None else _decode(value)
            except (msgspec.DecodeError, RecursionError):
                entry = None
                unreadable += 1
            if entry is None:
                entries.pop(incident, None)
            else:
                entries[incident] = entry
        self._entries[partition] = entries
        return unreadable

    def drop(self, partition: int) -> None:
        """Forgets a partition that somebody else owns now."""
        self._entries.pop(partition, None)

    def get(self, partition: int, incident: str) -> Entry | None:
        """What is known of an incident."""
        return self._entries.get(partition, {}).get(incident)

    def set(self, partition: int, incident: str, entry: Entry | None) -> None:
        """Records `entry`, or with None that nothing stands. Returns when the brokers have it.

        Raises kafka.errors.KafkaError when they do not take it; memory then has it nevertheless, so that this
        process does not send twice.
        """
        self.remember(partition, incident, entry)
        value = None if entry is None else msgspec.json.encode(entry)
        key = (self._prefix + incident).encode()
        self._producer.send(self._topic, key=key, value=value, partition=partition).get(timeout=_ACK_TIMEOUT_S)

    def remember(self, partition: int, incident: str, entry: Entry | None) -> None:
        """Changes memory alone."""
        entries = self._entries.setdefault(partition, {})
        if entry is None:
            entries.pop(incident, None)
        else:
            entries[incident] = entry

    def known_channel(self) -> str:
        """A channel ID Slack has answered with, empty when there is none yet."""
        sent = (entry.channel for entries in self._entries.values() for entry in entries.values())
        return next((channel for channel in sent if channel), "")


_decode = msgspec.json.Decoder(Entry).decode
