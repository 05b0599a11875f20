"""`flinkwatch play`: a recording into Kafka, as fast as it happened and dated from now on.

The demo plays faster, with the recording's own times and pulse; here a job runs that has a pulse of its own.
"""

import time
from collections import Counter
from contextlib import closing
from typing import Any

import structlog
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError, TopicAlreadyExistsError

from detectors.events.event import Record
from sinks.kafka_access import client_options
from streaming.brokers import Stopped, await_brokers
from streaming.demo.playback import records_to_play
from streaming.demo.redating import redated
from streaming.demo.show import find_scenario
from streaming.errors import RecordingError, UserError
from streaming.settings import Settings
from streaming.stop import Stop

log = structlog.get_logger()


def play(recording: str, settings: Settings, stop: Stop) -> None:
    """Write a recording, a scenario's name or a file, to Kafka, until its end or `stop`. Raises UserError."""
    records = records_to_play(find_scenario(recording), *settings.kafka.for_files)
    try:
        await_brokers(settings, stop, say=str)
        played = _play(settings, records, stop)
    except Stopped:
        return
    except KafkaError as error:
        raise UserError(f"Kafka at {settings.kafka.access.bootstrap_servers}: {error}") from error
    log.info("played", recording=recording, records=played)


def _play(settings: Settings, records: list[Record], stop: Stop) -> int:
    """How many records were written before the end, or before `stop`."""
    options = client_options(settings.kafka.access)
    partitions = _partitions(settings, records, options)
    begun, written = time.time(), 0
    log.info("playing", records=len(records), for_s=round((records[-1].timestamp - records[0].timestamp) / 1000))
    with closing(KafkaProducer(**options, linger_ms=0)) as producer:
        for record in redated(records, int(begun * 1000)):
            if stop.wait(max(0.0, record.timestamp / 1000 - time.time())):
                break
            producer.send(
                record.topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=record.partition % partitions[record.topic],
                timestamp_ms=record.timestamp,
            )
            written += 1
        producer.flush(timeout=10)
    return written


def _partitions(settings: Settings, records: list[Record], options: dict[str, Any]) -> Counter[str]:
    """Partitions of the topics of the recording, which are made when missing. Raises RecordingError."""
    wanted: Counter[str] = Counter()
    for record in records:
        wanted[record.topic] = max(wanted[record.topic], record.partition + 1)
    read = {*settings.kafka.logs, *settings.kafka.metrics}
    if unread := sorted(wanted.keys() - read):
        raise RecordingError(
            f"the recording has records of {', '.join(unread)}; kafka.logs and kafka.metrics name others"
        )
    with closing(KafkaAdminClient(**options)) as admin:
        for topic, count in wanted.items():
            try:
                admin.create_topics({topic: {"num_partitions": count, "replication_factor": -1, "configs": {}}})
            except TopicAlreadyExistsError:
                continue
        admin.wait_for_topics(list(wanted))
        return Counter({t["name"]: len(t["partitions"]) for t in admin.describe_topics(list(wanted))})
