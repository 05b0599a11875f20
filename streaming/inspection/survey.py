"""Reads what `cluster_inputs.py` describes: the newest records of the input topics, and the readings."""

from collections.abc import Iterable
from contextlib import closing

from detectors.events.identity import Identity
from detectors.incident import Reading
from sinks.kafka import clients
from sinks.kafka.diagnosis import explained
from streaming.configuration.settings import Kafka
from streaming.errors import PublishedError
from streaming.inspection.cluster_inputs import InputSurvey
from streaming.inspection.newest_records import newest_records


def survey_inputs(
    kafka: Kafka, identity: Identity, readings: Iterable[Reading], most: int, within_ms: int
) -> tuple[InputSurvey, list[str]]:
    """What about `most` records of each input topic show of every cluster, and the topics that Kafka does not have.

    Each topic is read for about `within_ms` at most. Raises PublishedError.
    """
    topics = [*kafka.logs, *kafka.metrics]
    found = InputSurvey(identity, frozenset(kafka.metrics))
    for reading in readings:
        found.measured(reading)
    with (
        explained(kafka.access, PublishedError, "the input topics could not be read: "),
        closing(clients.consumer(kafka.access, connect_ms=within_ms)) as consumer,
    ):
        missing = [topic for topic in topics if not consumer.partitions_for_topic(topic)]
        if len(missing) == len(topics):
            raise PublishedError(
                f"Kafka has no topic {', '.join(topics)}: kafka.logs and kafka.metrics in the configuration name them"
            )
        for topic in topics:
            for record in newest_records(consumer, topic, most, within_ms / 1_000):
                found.take(record)
    return found, missing
