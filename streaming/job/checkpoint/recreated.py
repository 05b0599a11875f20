"""Topics that were deleted and made again while the job did not run.

Their offsets began again, and Spark would go on at the old ones: it skips what lies below them without a word. So
before the query starts, the newest offsets of the checkpoint are compared with Kafka. Partitions of a topic that was
made again are put to their beginning there, in the one file that Spark goes on from, and it is said.

A topic is known by the id that Kafka gives it, which the checkpoint keeps. Brokers before 2.8 give none; there, and for
a checkpoint that has kept none yet, an end below the checkpoint's offset is the proof.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from detectors.events.vocabulary import flinkwatch_itself
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import partitions_of
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.checkpoint.offsets import Offsets, by_topic
from streaming.job.query import input_topics

log = structlog.get_logger()


Places = list[tuple[str, str]]
"""Topics and partitions."""

NO_ID = "00000000-0000-0000-0000-000000000000"
_IDS = "flinkwatch-topics.json"
_GAPS = "flinkwatch-gaps.json"
_decode_offsets = msgspec.json.Decoder(Offsets).decode
_decode_gaps = msgspec.json.Decoder(list[tuple[str, str]]).decode
_decode_ids = msgspec.json.Decoder(dict[str, str]).decode


class InputTopics(NamedTuple):
    """The input topics as they are now."""

    ids: dict[str, str]
    begins: Offsets
    ends: Offsets


def recreated(stored: Offsets, known: Mapping[str, str], there: InputTopics) -> Offsets:
    """New offsets of the topics that must be read from their beginning. Pure.

    All partitions of a topic that was made again; of one with the same id those alone that have lost their end.
    """
    found: Offsets = {}
    for topic, partitions in stored.items():
        ends, begins = there.ends.get(topic, {}), there.begins.get(topic, {})
        cut = [p for p, offset in partitions.items() if p in ends and ends[p] < offset]
        before, now = known.get(topic, NO_ID), there.ids.get(topic, NO_ID)
        same = before == now != NO_ID
        again = cut if same else list(begins) if cut or NO_ID not in (before, now) else []
        if again:
            kept = partitions if same else {}
            found[topic] = {**kept, **{p: begins[p] for p in again}}
    return found


def read_recreated_from_their_beginning(spark: SparkSession, settings: Settings) -> list[str]:
    """Correct the checkpoint where topics were made again; the lines that say so (`flinkwatch_itself.py`).

    Raises PreflightError when the brokers or the checkpoint cannot be used.
    """
    place = settings.streaming.checkpoint
    there = _ask(settings.kafka.access, input_topics(settings))
    try:
        checkpoint = _Checkpoint(spark, place)
        lines = []
        if newest := checkpoint.newest_offsets():
            again = recreated(newest.offsets, checkpoint.ids(), there)
            if again:
                checkpoint.put(newest, again)
            lines = _said(newest.offsets, again)
        checkpoint.keep_ids(there.ids)
    except Py4JError as error:
        raise PreflightError(
            f"streaming.checkpoint: {place} cannot be read or written: {_first_line(error)}"
        ) from error
    return lines


def kept_gaps(spark: SparkSession, place: str) -> Places:
    """Partitions with a gap that were not read up when the process before ended."""
    return _Checkpoint(spark, place).gaps()


def keep_gaps(spark: SparkSession, place: str, gaps: Places) -> None:
    """Keep them for the next process, which else would never say that they are read."""
    _Checkpoint(spark, place).keep_gaps(gaps)


def topic_ids(admin: Any, topics: tuple[str, ...]) -> dict[str, str]:
    """Ids by topic, of those that have one. `admin` is kafka-python's KafkaAdminClient."""
    described = admin.describe_topics(list(topics))
    ids = {one["name"]: str(one.get("topic_id") or NO_ID) for one in described if not one["error_code"]}
    return {name: topic for name, topic in ids.items() if topic != NO_ID}


class _Newest(NamedTuple):
    path: Any
    head: list[str]
    offsets: Offsets


class _Checkpoint:
    """The files of the checkpoint that matter here, through Hadoop, wherever they are."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no public way to Hadoop's file systems
        context: Any = spark._jsc  # noqa: SLF001
        configuration = context.hadoopConfiguration()
        self._jvm = jvm
        self._place = jvm.org.apache.hadoop.fs.Path(place)
        self._files = self._place.getFileSystem(configuration)
        checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        self._atomic = checkpointing.CheckpointFileManager.create(self._place, configuration)

    def newest_offsets(self) -> _Newest | None:
        """What the query goes on from; None without any, or with a file that Spark itself will complain about."""
        folder = self._path("offsets")
        if not self._files.exists(folder):
            return None
        names = [status.getPath().getName() for status in self._files.listStatus(folder)]
        numbers = [int(name) for name in names if name.isdigit()]
        if not numbers:
            return None
        path = self._path("offsets", str(max(numbers)))
        try:
            *head, offsets = self._read(path).decode().splitlines()
            return _Newest(path, head, _decode_offsets(offsets))
        except (ValueError, msgspec.MsgspecError):
            return None

    def put(self, newest: _Newest, again: Offsets) -> None:
        """The same file with other offsets, in one step: half a file would stop the query."""
        offsets = newest.offsets | again
        self._write(newest.path, "\n".join([*newest.head, msgspec.json.encode(offsets).decode()]).encode())

    def ids(self) -> dict[str, str]:
        """Topic ids as they were when the query last started."""
        path = self._path(_IDS)
        if not self._files.exists(path):
            return {}
        try:
            return _decode_ids(self._read(path))
        except msgspec.MsgspecError:
            log.warning("topic ids of the checkpoint are damaged and are not compared", file=str(path.toString()))
            return {}

    def keep_ids(self, ids: dict[str, str]) -> None:
        """Keep them for the next start."""
        if ids != self.ids():
            self._write(self._path(_IDS), msgspec.json.encode(ids))

    def gaps(self) -> Places:
        """Partitions with a gap that were not read up yet."""
        path = self._path(_GAPS)
        if not self._files.exists(path):
            return []
        try:
            return _decode_gaps(self._read(path))
        except msgspec.MsgspecError:
            log.warning(
                "open gaps of the checkpoint are damaged, their incidents may stay open", file=str(path.toString())
            )
            return []

    def keep_gaps(self, gaps: Places) -> None:
        """Keep them for the next process."""
        self._write(self._path(_GAPS), msgspec.json.encode(gaps))

    def _path(self, *parts: str) -> Any:
        path = self._place
        for part in parts:
            path = self._jvm.org.apache.hadoop.fs.Path(path, part)
        return path

    def _read(self, path: Any) -> bytes:
        with closing(self._files.open(path)) as stream:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    def _write(self, path: Any, content: bytes) -> None:
        stream = self._atomic.createAtomic(path, True)
        try:
            stream.write(bytearray(content))
        except Py4JError:
            stream.cancel()
            raise
        stream.close()


def _said(stored: Offsets, again: Offsets) -> list[str]:
    lines = []
    for topic, partitions in sorted(again.items()):
        log.warning(
            "topic was deleted and made again, it is read from its beginning",
            topic=topic,
            offsets_before=stored[topic],
            offsets_now=partitions,
        )
        lines += [flinkwatch_itself.began_again(topic, p, stored[topic].get(p, 0)) for p in sorted(partitions, key=int)]
    return lines


def _ask(access: KafkaAccess, topics: tuple[str, ...]) -> InputTopics:
    with (
        explained(access, PreflightError),
        closing(clients.admin(access)) as admin,
        closing(clients.consumer(access)) as consumer,
    ):
        partitions = partitions_of(consumer, *topics)
        begins = by_topic(consumer.beginning_offsets(partitions))
        return InputTopics(topic_ids(admin, topics), begins, by_topic(consumer.end_offsets(partitions)))


def _first_line(error: Py4JError) -> str:
    thrown = getattr(error, "java_exception", None)
    return str(thrown.toString() if thrown is not None else error).splitlines()[0]
