"""`flinkwatch play`: a recording into Kafka, as fast as it happened and dated from now on.

The demo plays faster, with the recording's own times and heartbeat; here a job runs that has a heartbeat of its own.
"""

import http.client
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import structlog
from kafka.errors import KafkaError
from msgspec import structs

from detectors.events.event import Record
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.topics import create_missing
from streaming.configuration.settings import Settings
from streaming.errors import RecordingError, UserError
from streaming.job.wait_for_brokers import Stopped, await_brokers
from streaming.recordings.exercise import exercise
from streaming.recordings.recording import is_recording
from streaming.recordings.redate import redated
from streaming.recordings.replay import load
from streaming.shutdown import Stop

log = structlog.get_logger()


_SCENARIOS = Path(__file__).parents[2] / "tests" / "scenarios"
_SAY_EVERY_S = 30.0
_READY_WITHIN_S = 300.0
_ENDS = (
    "An incident that is still open is reported as without data after detectors.incidents.stale_after. To close it, "
    'disable its detector for these clusters: overrides: [{cluster: "exercise-*", detectors: {KIND: {enabled: false}}}]'
)


def play(recording: str, settings: Settings, stop: Stop, as_recorded: bool = False) -> None:
    """Write a recording, a scenario's name or a file, to Kafka, until its end or `stop`. Raises UserError.

    Its clusters are marked as an exercise, unless `as_recorded`.
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
    log.info("played", recording=recording, records=played, open_incidents=_ENDS)


def find_scenario(name: str) -> Path:
    """The recording of a scenario by name, or a recording by path. Raises UserError with the names there are."""
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
        # Of a log file each line has the name of the file for its topic.
        records = [r if r.topic == metrics_topic else structs.replace(r, topic=logs_topic) for r in records]
    if not records:
        raise RecordingError(f"{recording}: holds no record to play")
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
    """How many records were written before the end, or before `stop`."""
    partitions = _partitions(settings, records)
    begun, written = time.time(), 0
    span = (records[-1].timestamp - records[0].timestamp) / 1000
    said = begun
    log.info("playing, Ctrl-C ends it", records=len(records), for_s=round(span))
    with closing(clients.producer(settings.kafka.access)) as producer:
        for record in redated(records, int(begun * 1000)):
            if stop.wait(max(0.0, record.timestamp / 1000 - time.time())):
                break
            send(producer, record, record.partition % partitions[record.topic])
            written += 1
            if time.time() - said >= _SAY_EVERY_S:
                said = time.time()
                log.info("playing", records=written, of=len(records), left_s=max(0, round(begun + span - said)))
        producer.flush(timeout=10)
    return written


def await_ready(settings: Settings, stop: Stop, within_s: float = _READY_WITHIN_S) -> None:
    """Wait until the flinkwatch on this host is ready; one elsewhere cannot be asked, and that is said."""
    page = settings.sinks.prometheus
    deadline, said = time.monotonic() + within_s, False
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
            raise UserError(f"flinkwatch at port {page.port} is not ready after {within_s:.0f} s: {reason}")
        if not said:
            log.info("waiting until flinkwatch is ready", port=page.port, reason=reason)
            said = True
        if stop.wait(1.0):
            raise Stopped
    log.warning("no flinkwatch answers on this host: make sure that one runs, or nothing will be reported")


def _partitions(settings: Settings, records: list[Record]) -> dict[str, int]:
    """Partitions of the topics of the recording, which are made when missing. Raises RecordingError."""
    read = {*settings.kafka.logs, *settings.kafka.metrics}
    if unread := sorted({record.topic for record in records} - read):
        raise RecordingError(
            f"the recording has records of {', '.join(unread)}; kafka.logs and kafka.metrics name others"
        )
    return create_topics(settings.kafka.access, records)
