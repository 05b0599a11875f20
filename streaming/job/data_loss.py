"""Records that Kafka's retention removed before they were read, and topics that are made again while they are read.

Spark skips them in silence. It is certain when a batch begins at an offset below the first offset of the partition, and
that first offset was seen before the batch began: whatever the batch read, those records were gone. What a batch has
read may be removed afterwards, so a comparison with the first offset of today would accuse the innocent.

Done by the driver, every few seconds: the read stage sees no first offsets, and offsets that jump are no proof.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from datetime import datetime
from typing import Any

import msgspec
import structlog
from kafka.errors import KafkaError

from detectors.events.vocabulary import flinkwatch_itself
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import partitions_of
from sinks.secret import SecretError
from streaming.errors import TopicMadeAgainError
from streaming.job.checkpoint.offsets import by_topic
from streaming.job.checkpoint.recreated import topic_ids
from streaming.threads import Background

log = structlog.get_logger()

_EVERY_S = 5.0
_MAX_SEEN = 256

Offsets = Mapping[str, Mapping[str, int]]
_decode = msgspec.json.Decoder(dict[str, dict[str, int]]).decode


class FirstOffsets:
    """First offsets as they were seen, and what a batch's progress proves with them. Pure."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, Offsets]] = deque(maxlen=_MAX_SEEN)
        self._open: set[tuple[str, str]] = set()
        self._batch = -1

    def saw(self, at: int, firsts: Offsets) -> None:
        """First offsets by topic and partition, asked for before `at` (epoch ms). The earliest sight of each counts."""
        if not self._seen or self._seen[-1][1] != firsts:
            self._seen.append((at, firsts))

    def began_again(self, lines: list[str]) -> None:
        """Topics were made again and are read from their beginning; `lines` say so. Read up, that is over."""
        for line in lines:
            topic, partition = flinkwatch_itself.where(line)
            self._open.add((topic, partition))

    def open(self) -> list[tuple[str, str]]:
        """Topics and partitions with a gap that are not read up yet."""
        return sorted(self._open)

    def resume(self, gaps: list[tuple[str, str]]) -> None:
        """These were open when the process before ended."""
        self._open.update(gaps)

    def judge(self, batch: int, began: int, start: Offsets, end: Offsets, latest: Offsets) -> list[str]:
        """Lines to tell after a batch that began at `began` and read from `start` to `end` of `latest`."""
        if batch <= self._batch:
            return []
        self._batch = batch
        firsts: Offsets = next((f for at, f in reversed(self._seen) if at < began), {})
        lines: list[str] = []
        for topic, partitions in start.items():
            for partition, offset in partitions.items():
                first = firsts.get(topic, {}).get(partition, offset)
                if first > offset:
                    self._open.add((topic, partition))
                    lines.append(flinkwatch_itself.lost(topic, partition, first - offset, first))
        for topic, partition in sorted(self._open):
            if end.get(topic, {}).get(partition, -1) >= latest.get(topic, {}).get(partition, 1 << 62):
                self._open.discard((topic, partition))
                lines.append(flinkwatch_itself.read_up(topic, partition))
        return lines


class DataLossWatch(Background):
    """Asks for first offsets in a thread of its own; `progressed` is called with each progress of the query.

    Start it before the query, or what that skips in its first batch is not noticed.
    """

    def __init__(
        self,
        access: KafkaAccess,
        topics: tuple[str, ...],
        tell: Callable[[str], None],
        watched: tuple[str, ...] = (),
        began_again: list[str] | None = None,
    ) -> None:
        """`watched`: topics that must not be made again while the query runs. `began_again`: what the start found."""
        super().__init__("gaps")
        self._access = access
        self._topics = topics
        self._watched = watched
        self._tell = tell
        self._ids: dict[str, str] = {}
        self._made_again: set[str] = set()
        self._first_batch: int | None = None
        self._corrected: set[str] = set()
        self.firsts = FirstOffsets()
        self._lock = threading.Lock()
        self.corrected(began_again or [])

    def corrected(self, began_again: list[str]) -> None:
        """The checkpoint was corrected before a start of the query, and these lines say where."""
        ours = [line for line in began_again if flinkwatch_itself.where(line)[0] in self._topics]
        with self._lock:
            self._ids = {}
            self._made_again.clear()
            self._first_batch = None
            self._corrected = {flinkwatch_itself.where(line)[0] for line in began_again}
            self.firsts.began_again(ours)
        for line in ours:
            self._tell(line)

    def progressed(self, progress: Any) -> None:
        """A batch has finished. Raises TopicMadeAgainError when one was made again under the query."""
        source = progress["sources"][0]
        if self._first_batch is None:
            self._first_batch = progress["batchId"]
        with self._lock:
            again = self._made_again | shorter(_parsed(source["startOffset"]), _parsed(source["endOffset"]))
            if progress["batchId"] == self._first_batch:
                # It may have begun before the start corrected the checkpoint.
                again -= self._corrected
            if again:
                raise TopicMadeAgainError(f"{', '.join(sorted(again))} was deleted and made again while it was read")
            lines = self.firsts.judge(
                progress["batchId"],
                _epoch_ms(progress["timestamp"]),
                self._offsets(source["startOffset"]),
                self._offsets(source["endOffset"]),
                self._offsets(source["latestOffset"]),
            )
        for line in lines:
            log.warning("input", line=line)
            self._tell(line)

    def open(self) -> list[tuple[str, str]]:
        """Topics and partitions with a gap that are not read up yet."""
        with self._lock:
            return self.firsts.open()

    def resume(self, gaps: list[tuple[str, str]]) -> None:
        """These were open when the process before ended."""
        with self._lock:
            self.firsts.resume(gaps)

    def _offsets(self, text: str | None) -> Offsets:
        found = _parsed(text)
        return {topic: found[topic] for topic in self._topics if topic in found}

    def _run(self) -> None:
        with ExitStack() as made:
            consumer: Any = None
            admin: Any = None
            while True:
                try:
                    consumer = consumer or made.enter_context(closing(clients.consumer(self._access)))
                    self._ask(consumer)
                    if self._watched:
                        admin = admin or made.enter_context(closing(clients.admin(self._access)))
                        self.compare(topic_ids(admin, self._watched))
                except (KafkaError, SecretError) as error:
                    log.debug("first offsets are not known", error=str(error))
                if self._stop.wait(_EVERY_S):
                    return

    def compare(self, ids: dict[str, str]) -> None:
        """A topic without an answer is being deleted: its old id stays, to be compared with the next."""
        with self._lock:
            self._made_again |= {topic for topic, one in ids.items() if self._ids.get(topic, one) != one}
            self._ids = {**ids, **self._ids}

    def _ask(self, consumer: Any) -> None:
        firsts = by_topic(consumer.beginning_offsets(partitions_of(consumer, *self._topics)))
        with self._lock:
            self.firsts.saw(_now_ms(), firsts)


def _parsed(text: str | None) -> Offsets:
    try:
        return _decode(text or "{}")
    except msgspec.MsgspecError:
        return {}


def shorter(start: Offsets, end: Offsets) -> set[str]:
    """Topics of which a batch ended before it began: their offsets have begun again."""
    return {t for t, partitions in end.items() if any(o < start.get(t, {}).get(p, 0) for p, o in partitions.items())}


def _now_ms() -> int:
    return int(time.time() * 1000)


def _epoch_ms(timestamp: str) -> int:
    """Spark's time of the trigger, such as 2026-11-21T08:00:00.123Z."""
    return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
