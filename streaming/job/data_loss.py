"""Detects records that Kafka's retention deleted before they were read, and input topics that were created again.

Spark skips such records silently. The loss is certain if a batch starts at an offset below the first offset of the
partition and that first offset was seen before the batch began. A later first offset proves nothing, because retention
may delete records after a batch has read them.

The driver checks every few seconds: the read stage cannot see first offsets, and a jump of offsets is no proof.
"""

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import datetime
from typing import Any

import structlog
from kafka.errors import KafkaError

from detectors.events.vocabulary import flinkwatch_itself
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import partitions_of
from sinks.secret import SecretError
from streaming.errors import RestartNeededError
from streaming.job.checkpoint.offsets import Offsets, by_topic, parsed
from streaming.job.checkpoint.topic_ids import topic_ids
from streaming.threads import Background

log = structlog.get_logger()

_EVERY_S = 5.0
_MAX_SEEN = 256
_COUNT = re.compile(r"(?P<count>\d+) unread records")


class FirstOffsets:
    """The first offsets of partitions over time, and the data loss that a batch's progress proves. Pure."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, Offsets]] = deque(maxlen=_MAX_SEEN)
        self._open: set[tuple[str, str]] = set()
        self._batch = -1

    def saw(self, at: int, firsts: Offsets) -> None:
        """Add first offsets by topic and partition, requested before `at` (epoch ms)."""
        if not self._seen or self._seen[-1][1] != firsts:
            self._seen.append((at, firsts))

    def began_again(self, lines: list[str]) -> None:
        """Note topics that were created again and are read from their beginning, from the heartbeat's `lines`."""
        self._open.update(map(flinkwatch_itself.where, lines))

    def open(self) -> list[tuple[str, str]]:
        """Topics and partitions with a gap that are not read to their end yet."""
        return sorted(self._open)

    def resume(self, gaps: list[tuple[str, str]]) -> None:
        """Take over the gaps that were open when the previous process ended."""
        self._open.update(gaps)

    def judge(self, batch: int, began: int, start: Offsets, end: Offsets, latest: Offsets) -> list[str]:
        """Lines to publish after a batch that began at `began` and read from `start` to `end` of `latest`."""
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
    """Requests first offsets in a thread of its own; call `progressed` with each progress of the query.

    Start it before the query, so that a loss in the first batch is detected.
    """

    def __init__(
        self,
        access: KafkaAccess,
        topics: tuple[str, ...],
        publish_line: Callable[[str], None],
        watched: tuple[str, ...] = (),
        began_again: list[str] | None = None,
    ) -> None:
        """`watched` are the topics that must not be created again while the query runs."""
        super().__init__("gaps")
        self._access = access
        self._topics = topics
        self._watched = watched
        self._publish_line = publish_line
        self._ids: dict[str, str] = {}
        self._made_again: set[str] = set()
        self._first_batch: int | None = None
        self._corrected: set[str] = set()
        self.firsts = FirstOffsets()
        self._lock = threading.Lock()
        self.corrected(began_again or [])

    def corrected(self, began_again: list[str]) -> None:
        """Note that the checkpoint was corrected before a start of the query, as the lines `began_again` say."""
        ours = [line for line in began_again if flinkwatch_itself.where(line)[0] in self._topics]
        with self._lock:
            self._ids = {}
            self._made_again.clear()
            self._first_batch = None
            self._corrected = {flinkwatch_itself.where(line)[0] for line in began_again}
            self.firsts.began_again(ours)
        for line in ours:
            self._publish_line(line)

    def progressed(self, progress: Any) -> None:
        """Check a finished batch. Raises RestartNeededError if a topic was created again while the query ran."""
        source = progress["sources"][0]
        if self._first_batch is None:
            self._first_batch = progress["batchId"]
        with self._lock:
            start, end, latest = (parsed(source[name]) for name in ("startOffset", "endOffset", "latestOffset"))
            again = self._made_again | _shorter(start, end)
            if progress["batchId"] == self._first_batch:
                # It may have begun before the start corrected the checkpoint.
                again -= self._corrected
            if again:
                raise RestartNeededError(f"{', '.join(sorted(again))} was deleted and created again while it was read")
            ours = [{t: found[t] for t in self._topics if t in found} for found in (start, end, latest)]
            # Spark's trigger time, such as 2026-11-21T08:00:00.123Z.
            began = int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000)
            lines = self.firsts.judge(progress["batchId"], began, *ours)
        for line in lines:
            _log_line(line)
            self._publish_line(line)

    def open(self) -> list[tuple[str, str]]:
        with self._lock:
            return self.firsts.open()

    def resume(self, gaps: list[tuple[str, str]]) -> None:
        with self._lock:
            self.firsts.resume(gaps)

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
                    log.debug("cannot read the first offsets of the input topics", error=str(error))
                if self._stop.wait(_EVERY_S):
                    return

    def compare(self, ids: dict[str, str]) -> None:
        """Compare topic ids. A topic that is being deleted has no id now, so its old id is kept for later."""
        with self._lock:
            self._made_again |= {topic for topic, one in ids.items() if self._ids.get(topic, one) != one}
            self._ids = {**ids, **self._ids}

    def _ask(self, consumer: Any) -> None:
        firsts = by_topic(consumer.beginning_offsets(partitions_of(consumer, *self._topics)))
        with self._lock:
            self.firsts.saw(int(time.time() * 1000), firsts)


def _log_line(line: str) -> None:
    topic, partition = flinkwatch_itself.where(line)
    if found := _COUNT.search(line):
        log.warning(
            "unread records were deleted by Kafka", topic=topic, partition=int(partition), count=int(found["count"])
        )
    else:
        log.info("partition is read to its end after deleted records", topic=topic, partition=int(partition))


def _shorter(start: Offsets, end: Offsets) -> set[str]:
    """Topics whose offsets started again, since a batch ended at a lower offset than it began."""
    return {t for t, partitions in end.items() if any(o < start.get(t, {}).get(p, 0) for p, o in partitions.items())}
