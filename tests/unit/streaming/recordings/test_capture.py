"""A capture is what was sent, byte for byte, in order of time; replay reads it."""

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from detectors.events.event import Record
from sinks.kafka.access import KafkaAccess
from sinks.kafka.topics import TopicNames
from streaming.configuration.settings import Kafka
from streaming.recordings import capture as module
from streaming.recordings.capture import CaptureError, capture
from streaming.recordings.recording import line_of, records_of
from tests.embedded.broker import Broker

NOW = round(time.time() * 1000)
HOUR = 3_600_000
ODD = b"\x1f\x8b\xff\x00 not text"


def _sent(topic: str, partitions: int, count: int) -> list[Record]:
    """Records of all shapes; each partition has its own pace, so that one is far ahead of the others."""
    shapes = (
        (None, b'{"message": "plain \xe2\x9c\x93"}', ()),
        (ODD, ODD, (("host", b"tm-1"), ("odd", ODD), ("empty", b""))),
        (b"", b"", (("host", b"tm-1"), ("host", b"twice"))),
        (b"key", None, ()),
        (b"key", b"line one\r\nline two\n", (("file", b"a.log"),)),
    )
    records = []
    for n in range(count):
        key, value, headers = shapes[n % len(shapes)]
        partition = n % partitions
        at = NOW - HOUR + n // partitions * (10 + 40 * partition)
        records.append(Record(topic, partition, n // partitions, at, key, value, headers))
    return records


@pytest.fixture(scope="module")
def kafka(broker: Broker) -> Kafka:
    return Kafka(
        access=KafkaAccess(bootstrap_servers=broker.bootstrap),
        logs=("captured.logs",),
        metrics=("captured.metrics",),
        topics=TopicNames(prefix="captured"),
    )


@pytest.fixture(scope="module")
def sent(kafka: Kafka) -> Iterator[list[Record]]:
    records = [*_sent("captured.logs", 3, 3_000), *_sent("captured.metrics", 2, 400), *_sent("captured.config", 1, 3)]
    servers = kafka.access.bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics(
        [NewTopic(n, p, 1) for n, p in (("captured.logs", 3), ("captured.metrics", 2), ("captured.config", 1))]
    )
    producer = KafkaProducer(bootstrap_servers=servers)
    for r in records:
        producer.send(r.topic, r.value, r.key, list(r.headers), r.partition, r.timestamp)
    producer.flush()
    yield records
    producer.close()
    admin.close()


def _read(file: Path) -> list[Record]:
    return list(records_of(file))


@pytest.mark.e2e
def test_what_is_captured_is_what_was_sent_byte_for_byte(kafka: Kafka, sent: list[Record], tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    found = capture(kafka, NOW - 2 * HOUR, tmp_path / "day.jsonl.gz", lambda *done: told.append(done))
    read = _read(tmp_path / "day.jsonl.gz")
    place = lambda r: (r.topic, r.partition, r.offset)  # noqa: E731
    assert sorted(read, key=place) == sorted(sent, key=place)
    assert [r.timestamp for r in read] == sorted(r.timestamp for r in sent)
    assert found == (len(sent), min(r.timestamp for r in sent), max(r.timestamp for r in sent), ())
    assert told[-1] == (3_000, len(sent))


@pytest.mark.e2e
def test_a_span_begins_at_its_time_but_the_configuration_is_whole(
    kafka: Kafka, sent: list[Record], tmp_path: Path
) -> None:
    since = NOW - HOUR + 5_000
    capture(kafka, since, tmp_path / "part.jsonl.gz")
    expected = [r for r in sent if r.timestamp >= since or r.topic == "captured.config"]
    assert 0 < len(expected) < len(sent)
    assert {(r.topic, r.partition, r.offset) for r in _read(tmp_path / "part.jsonl.gz")} == {
        (r.topic, r.partition, r.offset) for r in expected
    }


@pytest.mark.e2e
@pytest.mark.usefixtures("sent")
def test_many_fetches_of_a_partition_are_one_stream_and_none_is_read_ahead(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = written = most = 0
    original = module.record_of

    def fetch(found: object) -> Record:
        nonlocal fetched, most
        fetched += 1
        most = max(most, fetched - written)
        return original(found)

    def write(record: Record) -> bytes:
        nonlocal written
        written += 1
        return line_of(record)

    monkeypatch.setattr(module, "_MANY", 50)
    monkeypatch.setattr(module, "record_of", fetch)
    monkeypatch.setattr(module, "line_of", write)
    assert capture(kafka, 0, tmp_path / "a.jsonl.gz").records == written == 3_403
    assert most <= 6


@pytest.mark.e2e
def test_a_topic_that_is_missing_is_named_and_no_file_is_left(kafka: Kafka, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"misspelt: no such topic; kafka\.logs"):
        capture(kafka.model_copy(update={"logs": ("misspelt",), "metrics": ()}), 0, tmp_path / "a.jsonl.gz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
@pytest.mark.usefixtures("sent")
def test_a_topic_that_is_missing_does_not_stop_the_others(kafka: Kafka, tmp_path: Path) -> None:
    part = kafka.model_copy(update={"metrics": ("misspelt",)})
    found = capture(part, 0, tmp_path / "a.jsonl.gz")
    assert found.missing == ("misspelt",)
    assert found.records == len(_read(tmp_path / "a.jsonl.gz")) > 0
    assert {r.topic for r in _read(tmp_path / "a.jsonl.gz")} >= set(kafka.logs)


@pytest.mark.e2e
@pytest.mark.usefixtures("sent")
def test_a_place_that_cannot_be_written_is_named(kafka: Kafka, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"none/a\.jsonl\.gz: No such file or directory"):
        capture(kafka, 0, tmp_path / "none" / "a.jsonl.gz")


def test_no_broker_is_said_with_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECT_MS", 500)
    access = KafkaAccess(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(CaptureError, match=r"127\.0\.0\.1:1"):
        capture(Kafka(access=access), 0, tmp_path / "a.jsonl.gz")


@pytest.mark.parametrize("record", _sent("t", 1, 5))
def test_a_record_is_itself_after_a_recording(record: Record, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl.gz"
    file.write_bytes(gzip.compress(line_of(record)))
    assert _read(file) == [record]
