"""The delivery ledger: what was sent of each incident, in a compacted topic: a restart sends nothing twice.

The promise: no incident is lost; after an answer that did not come, at most one message is doubled, and that only
when Slack does not let us look it up.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
import structlog
from kafka.errors import KafkaError

from detectors.values.decoding import UndecodableError, carried
from sinks.contract.digest import PREFIX, Folded
from sinks.contract.notified import Told, Whole

State = Literal["intent", "sent", "unknown", "folded", "undelivered"]

log = structlog.get_logger()

_ACK_TIMEOUT_S = 10.0
_CLOSE_S = 2.0


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
    seq: Whole
    state: State
    at: Whole
    channel: str = ""
    ts: str = ""
    told: Told | None = None
    offset: Whole = -1
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
        self._prefix = f"{integration}/"
        self._entries: dict[int, dict[str, Entry]] = {}
        self._unflushed: dict[tuple[int, str], Any] = {}
        self.topic = topic
        self.is_failing = False
        """Whether the last write failed."""

    @property
    def is_kept(self) -> bool:
        """Whether it outlives this process."""
        return self._producer is not None

    def load(self, partition: int, records: Iterable[tuple[bytes | None, bytes | None]]) -> list[str]:
        """Takes over a partition: `records` are all of its keys and values, oldest first.

        Returns the names whose newest entry cannot be read; there is none for them.
        """
        entries: dict[str, Entry] = {}
        damaged: dict[str, None] = {}
        for key, value in records:
            name = (key or b"").decode("utf-8", "replace")
            if not name.startswith(self._prefix):
                continue
            incident = name.removeprefix(self._prefix)
            entry = None if value is None else _read(incident, value)
            if entry is None:
                entries.pop(incident, None)
            else:
                entries[incident] = entry
            damaged.pop(incident, None)
            if entry is None and value is not None:
                damaged[incident] = None
        self._entries[partition] = entries
        return list(damaged)

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
            self._wait(self._unflushed.pop((partition, incident)))

    def set_soon(self, partition: int, incident: str, entry: Entry | None) -> None:
        """Records `entry`; `flush` says whether the brokers have it. Raises kafka.errors.KafkaError."""
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
        """Writes every entry with a new producer: the topic is another one, which the old one's numbers do not fit.

        Raises kafka.errors.KafkaError.
        """
        self.close()
        self._producer = producer
        self._unflushed.clear()
        for partition, entry in list(self.entries()):
            self.set_soon(partition, entry.incident, entry)

    def close(self) -> None:
        """Nothing more is written."""
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


def _read(incident: str, value: bytes) -> Entry | None:
    """None for what cannot be read or is about another incident."""
    try:
        entry = _decode(value)
    except UndecodableError:
        return None
    return entry if entry.incident == incident else None


_decode = carried(msgspec.json.Decoder(Entry).decode)
_encode = msgspec.json.Encoder().encode
