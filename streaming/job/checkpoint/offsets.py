"""Offsets in the form of Spark's checkpoint, by topic and partition."""

from collections.abc import Mapping

from kafka import TopicPartition

Offsets = dict[str, dict[str, int]]
"""Topic → partition → offset."""


def by_topic(offsets: Mapping[TopicPartition, int]) -> Offsets:
    """Convert kafka-python's offsets into Spark's form."""
    found: Offsets = {}
    for place, offset in offsets.items():
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return found
