"""The delivery ledger: what was sent of each incident, in a compacted topic: a restart sends nothing twice.

The promise: no incident is lost; after an answer that did not come, at most one message is doubled, and that only
when Slack does not let us look it up.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from kafka.errors import KafkaError

from detectors.decoding import UndecodableError, carried
from sinks.digest import PREFIX, Folded
from sinks.told import Told

State = Literal["intent", "sent", "unknown", "folded", "undelivered"]

_ACK_TIMEOUT_S = 10.0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one incident's message.

    `intent`: about to be sent; `sent`: the receiver has answered ok; `unknown`: sent without a clear answer; `folded`:
    told in a digest only; `undelivered`: given up for now, for `reason`.
    `seq` is the transition this is about, `offset` where it stands in the incidents topic, `at` when this was written
    (epoch ms). `channel` and `ts` name the message that stands; they are empty while none is known to stand. `told` is
    what that message has told. `folded`: the incident was told in a digest, perhaps before it got its own message.
    `over`: nothing follows `seq`. `silenced`: it is under a silence, and what is not told yet is not told now.
    """

    incident: str
    seq: int
    state: State
    at: int
    channel: str = ""
    ts: str = ""
    told: Told | None = None
    offset: int = -1
    over: bool = False
    reason: str = ""
    folded: Folded | None = None
    silenced: bool = False
    version: int = 1


class Ledger:
    """The entries of the partitions this process owns, in memory and in the topic."""

    def __init__(self, producer: Any, topic: str, integration: str) -> None:
        """`producer` is kafka-python's KafkaProducer, None for a ledger that lives in memory alone; `integration` parts
        the ledgers of several sinks.
        """
        self._producer = producer
        self._topic = topic
        self._prefix = f"{integration}/"
        self._entries: dict[int, dict[str, Entry]] = {}
        self._unflushed: dict[tuple[int, str], Any] = {}

    @property
    def is_kept(self) -> bool:
        """Whether it outlives this process."""
        return self._producer is not None

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
            except UndecodableError:
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
        self._unflushed = {key: future for key, future in self._unflushed.items() if key[0] != partition}

    def partitions(self) -> list[int]:
        """Those this process owns, in order."""
        return sorted(self._entries)

    def get(self, partition: int, incident: str) -> Entry | None:
        """What is known of an incident."""
        return self._entries.get(partition, {}).get(incident)

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """All entries with their partition."""
        for partition, entries in self._entries.items():
            for entry in entries.values():
                yield partition, entry

    def set(self, partition: int, incident: str, entry: Entry | None) -> None:
        """Records `entry`, or with None that nothing stands. Returns when the brokers have it.

        Raises kafka.errors.KafkaError when they do not take it; memory then has it nevertheless, so that this
        process does not send twice.
        """
        self.set_soon(partition, incident, entry)
        if self._producer is not None:
            self._unflushed.pop((partition, incident)).get(timeout=_ACK_TIMEOUT_S)

    def set_soon(self, partition: int, incident: str, entry: Entry | None) -> None:
        """Records `entry`; `flush` says whether the brokers have it. Raises kafka.errors.KafkaError."""
        self.remember(partition, incident, entry)
        if self._producer is None:
            return
        value = None if entry is None else _encode(entry)
        key = (self._prefix + incident).encode()
        self._unflushed[partition, incident] = self._producer.send(
            self._topic, key=key, value=value, partition=partition
        )

    def flush(self) -> None:
        """Returns when the brokers have everything. Raises kafka.errors.KafkaError; then call it again."""
        for (partition, incident), future in list(self._unflushed.items()):
            try:
                future.get(timeout=_ACK_TIMEOUT_S)
            except KafkaError:
                self.set_soon(partition, incident, self.get(partition, incident))
                raise
            del self._unflushed[partition, incident]

    def forget_ended(self, before: int) -> None:
        """Takes out what ended before that time (epoch ms), and digests whose incidents have all ended.

        Raises kafka.errors.KafkaError.
        """
        entries = list(self.entries())
        counted = {f"{PREFIX}{entry.folded.storm}" for _, entry in entries if entry.folded and not entry.over}
        for partition, entry in entries:
            ended = entry.over or (entry.incident.startswith(PREFIX) and entry.incident not in counted)
            if ended and entry.state != "undelivered" and entry.at < before:
                self.set_soon(partition, entry.incident, None)

    def remember(self, partition: int, incident: str, entry: Entry | None) -> None:
        """Changes memory alone."""
        entries = self._entries.setdefault(partition, {})
        if entry is None:
            entries.pop(incident, None)
        else:
            entries[incident] = entry

    def known_channel(self) -> str:
        """A channel ID Slack has answered with, empty when there is none yet."""
        return next((entry.channel for _, entry in self.entries() if entry.channel), "")


_decode = carried(msgspec.json.Decoder(Entry).decode)
_encode = msgspec.json.Encoder().encode
