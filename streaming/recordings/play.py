"""`flinkwatch play`: writes a recording to Kafka in real time, with timestamps shifted to start now.

The demo plays faster, with the recording's own times and heartbeats. Here a running job writes its own heartbeats.
"""

import http.client
import time
from collections import Counter
from contextlib import closing
from typing import Any

import structlog
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError, TopicAlreadyExistsError

from detectors.events.event import Record
from sinks.kafka.access import client_options
from streaming.configuration.settings import Settings
from streaming.demo.demo import find_scenario
from streaming.errors import RecordingError, UserError
from streaming.job.wait_for_brokers import Stopped, await_brokers
from streaming.recordings.exercise import exercise
from streaming.recordings.playback import records_to_play
from streaming.recordings.redate import redated
from streaming.shutdown import Stop

log = structlog.get_logger()


_REPORT_EVERY_S = 30.0
_READY_WITHIN_S = 300.0
_ENDS = (
    "Open incidents become stale after detectors.incidents.stale_after. To close one earlier, disable its detector for "
    'these clusters: overrides: [{cluster: "exercise-*", detectors: {KIND: {enabled: false}}}]'
)


def play(recording: str, settings: Settings, stop: Stop, as_recorded: bool = False) -> None:
    """Write a recording (name of a scenario, or file) to Kafka, until its end or `stop`. Raises UserError.

    Its clusters are marked as an exercise unless `as_recorded` is true.
    """
    records = records_to_play(find_scenario(recording), *settings.kafka.for_files)
    if not as_recorded:
        records = list(exercise(records, settings.identity, frozenset(settings.kafka.metrics)))
    try:
        await_brokers(settings, stop, say=str)
        await_ready(settings, stop)
        played = _play(settings, records, stop)
    except Stopped:
        return
    except KafkaError as error:
        raise UserError(f"Kafka at {settings.kafka.access.bootstrap_servers}: {error}") from error
    log.info("recording was played", recording=recording, records=played, hint=_ENDS)


def _play(settings: Settings, records: list[Record], stop: Stop) -> int:
    """Write the records; return how many were written before the end or `stop`."""
    options = client_options(settings.kafka.access)
    partitions = _partitions(settings, records, options)
    begun, written = time.time(), 0
    span = (records[-1].timestamp - records[0].timestamp) / 1000
    reported_at = begun
    log.info("playing the recording, Ctrl-C stops it", records=len(records), for_s=round(span))
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
            if time.time() - reported_at >= _REPORT_EVERY_S:
                reported_at = time.time()
                left_s = max(0, round(begun + span - reported_at))
                log.info("playing the recording", records=written, of=len(records), left_s=left_s)
        producer.flush(timeout=10)
    return written


def await_ready(settings: Settings, stop: Stop, within_s: float = _READY_WITHIN_S) -> None:
    """Wait until the flinkwatch on this host is ready. Logs a warning if none runs on this host."""
    page = settings.sinks.prometheus
    deadline, reported = time.monotonic() + within_s, False
    while page.enabled and page.port:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", page.port, timeout=3)) as connection:
                connection.request("GET", "/-/ready")
                answer = connection.getresponse()
                reason = answer.read(500).decode(errors="replace").strip()
        except (OSError, http.client.HTTPException):
            break
        if answer.status == http.client.OK:
            return
        if time.monotonic() > deadline:
            raise UserError(f"flinkwatch on port {page.port} is not ready after {within_s:.0f} s: {reason}")
        if not reported:
            log.info("waiting until flinkwatch is ready", port=page.port, reason=reason)
            reported = True
        if stop.wait(1.0):
            raise Stopped
    log.warning("no flinkwatch answers on this host; without a running one, no incidents are reported")


def _partitions(settings: Settings, records: list[Record], options: dict[str, Any]) -> Counter[str]:
    """Partition counts of the recording's topics, which are created if missing. Raises RecordingError."""
    wanted: Counter[str] = Counter()
    for record in records:
        wanted[record.topic] = max(wanted[record.topic], record.partition + 1)
    read = {*settings.kafka.logs, *settings.kafka.metrics}
    if unread := sorted(wanted.keys() - read):
        raise RecordingError(
            f"the recording has records of {', '.join(unread)}, which kafka.logs and kafka.metrics do not contain"
        )
    with closing(KafkaAdminClient(**options)) as admin:
        for topic, count in wanted.items():
            try:
                admin.create_topics({topic: {"num_partitions": count, "replication_factor": -1, "configs": {}}})
            except TopicAlreadyExistsError:
                continue
        admin.wait_for_topics(list(wanted))
        return Counter({t["name"]: len(t["partitions"]) for t in admin.describe_topics(list(wanted))})
