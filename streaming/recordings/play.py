"""`flinkwatch play`: writes a recording to Kafka in real time, with timestamps shifted to start now.

The demo plays faster, with the recording's own times and heartbeats. Here a running job writes its own heartbeats.
"""

import http.client
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import structlog
from kafka.errors import KafkaError
from msgspec import structs

from detectors.events.envelopes.logs import origin_of
from detectors.events.event import Record
from detectors.events.identity import EXERCISE, Identity
from detectors.events.reader import Reader
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.topics import create_missing
from streaming.configuration.settings import Settings
from streaming.errors import ConfigError, RecordingError, UserError
from streaming.job.wait_for_brokers import await_brokers
from streaming.recordings.recording import is_recording
from streaming.recordings.redate import redated
from streaming.recordings.replay import load
from streaming.threads import Stop, Stopped

log = structlog.get_logger()


_SCENARIOS = Path(__file__).parents[2] / "tests" / "scenarios"
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


def exercise(records: Iterable[Record], identity: Identity, metric_topics: frozenset[str]) -> Iterator[Record]:
    """The records, with a header that names their cluster `exercise-…`. Raises ConfigError if headers are not used."""
    if identity.cluster[0] != "header":
        raise ConfigError(
            "identity.cluster: `header` must come first, so that messages can be marked as an exercise. "
            "Use --as-recorded to play without the mark"
        )
    reader = Reader(identity, metric_topics)
    for record in records:
        found = reader.read(record)
        events = found if isinstance(found, list) else []
        cluster = events[0].cluster if events else origin_of(record, identity.header).cluster(identity)
        others = tuple((name, value) for name, value in record.headers if name != identity.header)
        mark = (identity.header, f"{EXERCISE}{cluster}".encode())
        yield structs.replace(record, headers=(*others, mark))


def find_scenario(name: str) -> Path:
    """Find the recording of a scenario by name, or by path. Raises RecordingError, which lists the scenarios."""
    if Path(name).is_file():
        return Path(name)
    found = {recording.parent.name: recording for recording in sorted(_SCENARIOS.glob("*/input.jsonl*"))}
    if name not in found:
        raise RecordingError(f"no scenario {name}; there are: {', '.join(found)}; or name a recording's file")
    return found[name]


def records_to_play(recording: Path, logs_topic: str, metrics_topic: str) -> list[Record]:
    """The records of one file. Raises RecordingError, also when there are none."""
    records = load([recording], logs_topic, metrics_topic)
    if not is_recording(recording):
        # The topic of a line from a log file is the file's name.
        records = [r if r.topic == metrics_topic else structs.replace(r, topic=logs_topic) for r in records]
    if not records:
        raise RecordingError(f"{recording}: contains no records")
    return records


def send(producer: Any, record: Record, partition: int) -> Any:
    """The producer's future. Raises kafka.errors.KafkaError when the broker has gone."""
    return producer.send(
        record.topic,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        partition=partition,
        timestamp_ms=record.timestamp,
    )


def create_topics(access: KafkaAccess, records: Sequence[Record]) -> dict[str, int]:
    """Creates the topics of a recording that do not exist; the partitions that each topic has."""
    wanted: dict[str, int] = {}
    for record in records:
        wanted[record.topic] = max(wanted.get(record.topic, 1), record.partition + 1)
    with closing(clients.admin(access)) as admin:
        create_missing(
            admin, {topic: {"num_partitions": count, "replication_factor": -1} for topic, count in wanted.items()}
        )
        return {t["name"]: len(t["partitions"]) for t in admin.describe_topics(list(wanted))}


def _play(settings: Settings, records: list[Record], stop: Stop) -> int:
    """Write the records; return how many were written before the end or `stop`."""
    partitions = _partitions(settings, records)
    begun, written = time.time(), 0
    span = (records[-1].timestamp - records[0].timestamp) / 1000
    reported_at = begun
    log.info("playing the recording, Ctrl-C stops it", records=len(records), for_s=round(span))
    with closing(clients.producer(settings.kafka.access)) as producer:
        for record in redated(records, int(begun * 1000)):
            if stop.wait(max(0.0, record.timestamp / 1000 - time.time())):
                break
            send(producer, record, record.partition % partitions[record.topic])
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
            log.info("waiting for the flinkwatch on this host to be ready", port=page.port, reason=reason)
            reported = True
        stop.pause(1.0)
    log.warning("no flinkwatch answers on this host; without a running one, no incidents are reported")


def _partitions(settings: Settings, records: list[Record]) -> dict[str, int]:
    """Partition counts of the recording's topics, which are created if missing. Raises RecordingError."""
    read = {*settings.kafka.logs, *settings.kafka.metrics}
    if unread := sorted({record.topic for record in records} - read):
        raise RecordingError(
            f"the recording has records of {', '.join(unread)}, which kafka.logs and kafka.metrics do not contain"
        )
    return create_topics(settings.kafka.access, records)
