"""Offsets in the form of Spark's checkpoint, by topic and partition."""

from collections.abc import Mapping

import msgspec
from kafka import TopicPartition

Offsets = dict[str, dict[str, int]]
"""Topic → partition → offset."""

decode_offsets = msgspec.json.Decoder(Offsets).decode


def parsed(text: str | None) -> Offsets:
    """The offsets in a progress of the query; none if they are missing or not in this form."""
    try:
        return decode_offsets(text or "{}")
    except msgspec.MsgspecError:
        return {}


def between(begins: Offsets, ends: Offsets) -> int:
    """The number of offsets from `begins` to `ends`, in partitions that both have."""
    return sum(
        max(0, end - begins.get(topic, {}).get(partition, end))
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def by_topic(offsets: Mapping[TopicPartition, int]) -> Offsets:
    """Convert kafka-python's offsets into Spark's form."""
    found: Offsets = {}
    for place, offset in offsets.items():
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return found
