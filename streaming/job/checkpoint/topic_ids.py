"""Detects topics that were deleted and created again while the job did not run.

Their offsets started again, but Spark would continue at the old ones and silently skip all records below them. So
before the query starts, the newest offsets of the checkpoint are compared with Kafka. The offsets of a topic that was
created again are reset to its beginning, in the file from which Spark continues, and a line reports it.

A topic is identified by Kafka's topic id, which the checkpoint keeps. Brokers before 2.8 have no ids; there, and for a
checkpoint without ids, an end offset below the checkpoint's offset is the proof.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import structlog
from pyspark.sql import SparkSession

from detectors.events.vocabulary import flinkwatch_itself
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import partitions_of
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.checkpoint.hadoop import HadoopFolder, opened
from streaming.job.checkpoint.offset_log import newest_batch, write_ends
from streaming.job.checkpoint.offsets import Offsets, by_topic
from streaming.job.query import input_topics

log = structlog.get_logger()


Places = list[tuple[str, str]]
"""Topics and partitions."""

NO_ID = "00000000-0000-0000-0000-000000000000"
_IDS = "flinkwatch-topics.json"
_GAPS = "flinkwatch-gaps.json"


class InputTopics(NamedTuple):
    ids: dict[str, str]
    begins: Offsets
    ends: Offsets


def corrected(stored: Offsets, known: Mapping[str, str], there: InputTopics) -> Offsets:
    """New offsets of the topics that must be read from their beginning. Pure.

    They cover all partitions of a topic that was created again, but of a topic with the same id only the partitions
    whose end is below the stored offset.
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


def correct_offsets(spark: SparkSession, settings: Settings) -> list[str]:
    """Correct the offsets of topics that were created again; return the lines that report it (`flinkwatch_itself.py`).

    Raises PreflightError if the brokers or the checkpoint cannot be used.
    """
    place = settings.streaming.checkpoint
    there = _ask(settings.kafka.access, input_topics(settings))
    lines: list[str] = []
    with opened(spark, place) as folder:
        ids = folder.kept(_IDS, dict[str, str], {}, "topic ids in the checkpoint are damaged and cannot be compared")
        if newest := newest_batch(folder):
            if again := corrected(newest.ends, ids, there):
                write_ends(folder, newest, newest.ends | again)
            lines = _report(newest.ends, again)
        if there.ids != ids:
            folder.replace(_IDS, msgspec.json.encode(there.ids))
    return lines


def kept_gaps(spark: SparkSession, place: str) -> Places:
    """Partitions with a gap that were not read to their end when the previous process ended."""
    damaged = "open gaps in the checkpoint are damaged, their incidents may stay open"
    return HadoopFolder(spark, place).kept(_GAPS, Places, [], damaged)


def keep_gaps(spark: SparkSession, place: str, gaps: Places) -> None:
    """Keep the gaps for the next process, which reports when they are read."""
    HadoopFolder(spark, place).replace(_GAPS, msgspec.json.encode(gaps))


def topic_ids(admin: Any, topics: tuple[str, ...]) -> dict[str, str]:
    """Topic ids by name, for topics that have one. `admin` is kafka-python's KafkaAdminClient."""
    described = admin.describe_topics(list(topics))
    ids = {one["name"]: str(one.get("topic_id") or NO_ID) for one in described if not one["error_code"]}
    return {name: topic for name, topic in ids.items() if topic != NO_ID}


def _report(stored: Offsets, again: Offsets) -> list[str]:
    lines = []
    for topic, partitions in sorted(again.items()):
        log.warning(
            "topic was deleted and created again and is read from its beginning",
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
