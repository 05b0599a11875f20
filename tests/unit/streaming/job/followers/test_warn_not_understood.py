"""Records that are read and never understood: counted, and their source is named while most of it is not."""

import json
from collections.abc import Iterable

import msgspec
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester
from structlog.testing import capture_logs

from detectors.engine.not_understood import Recognition, SourceSample
from detectors.events.event import Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from sinks.kafka.access import KafkaAccess
from streaming.job.followers.warn_not_understood import NotUnderstood
from streaming.job.read import ReadStage
from streaming.job.rows import Packed, bucket_of, decode_packed, encode_packed
from streaming.job.watch import BucketProcessor, OutputTopics
from streaming.recordings.replay import load
from tests.recorded import NAMES, recording
from tests.unit.detectors.events.envelopes.test_metrics import VALUES
from tests.unit.detectors.events.layouts.test_text_layout import ENVELOPES, LAYOUTS
from tests.unit.streaming.job.test_read import batch

METRICS = "flink.metrics"
READER = Reader(Identity(), frozenset({METRICS}))
STAGE = ReadStage(Identity(), (METRICS,), "flinkwatch.config", "flinkwatch.heartbeat", 2)
NO_LEVEL = {
    "timestamp": "2026-11-21T00:06:25Z",
    "logger": "org.apache.flink.runtime.checkpoint",
    "message": "Completed",
}
UNKNOWN_LOGS = {
    "JSON without a level": json.dumps(NO_LEVEL),
    "no time": "Completed checkpoint 5 for job 00000000000000000000000000000000 (org.apache.flink)",
    "another order": "CheckpointCoordinator INFO Completed checkpoint 5 at 21/Nov/2026:00:06:25 +0000",
}
UNKNOWN_METRICS = {
    "another prefix": 'acme_flink_jobmanager_job_numRestarts{host="h"} 5\nacme_flink_x 1\n',
    "no known name": 'flink_jobmanager_job_uptime{host="h"} 5\n',
    "telegraf": json.dumps({"fields": {"gauge": 1.0}, "name": "flink_x", "tags": {"host": "h"}, "timestamp": 5}),
}


def record(value: str, topic: str = "flink.logs", offset: int = 0, key: bytes = b"prod/h") -> Record:
    return Record(topic, 0, offset, 1_000, key, value.encode())


def looked(records: Iterable[Record]) -> dict[tuple[str, str, str], tuple[int, int, int]]:
    rows = [row.as_py() for out in STAGE.run(iter([batch(records)])) for row in out.column(1)]
    every = [one for row in rows for one in decode_packed(row).looked]
    return {(one.topic, one.cluster, one.host): (one.seen, one.missed, one.flink) for one in every}


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_that_is_read_is_understood(envelope: str, layout: str) -> None:
    value = ENVELOPES[envelope](LAYOUTS[layout])
    found = READER.recognise(value if isinstance(value, Record) else record(value))
    assert found is not None
    assert found.understood


@pytest.mark.parametrize("envelope", VALUES)
def test_every_envelope_of_metrics_is_understood(envelope: str) -> None:
    found = READER.recognise(record(VALUES[envelope], METRICS))
    assert found is not None
    assert found.understood


@pytest.mark.parametrize("name", UNKNOWN_LOGS)
def test_a_log_in_no_known_layout_is_not_understood(name: str) -> None:
    value = UNKNOWN_LOGS[name]
    found = READER.recognise(record(value))
    assert found is not None
    assert (found.cluster, found.host, found.understood, found.flink) == ("prod", "h", False, True)
    assert looked([record(value, offset=n) for n in range(500)]) == {("flink.logs", "prod", "h"): (496, 496, 496)}


@pytest.mark.parametrize("name", UNKNOWN_METRICS)
def test_metrics_without_a_known_name_are_not_understood(name: str) -> None:
    found = looked([record(UNKNOWN_METRICS[name], METRICS, n) for n in range(5)])
    assert list(found) == [(METRICS, "prod", "h")]
    ((seen, missed, flink),) = found.values()
    assert seen == missed == flink == 5


def test_parts_of_a_stack_blanks_and_what_is_rejected_show_nothing() -> None:
    for value in (
        "\tat a.B.c(B.java:5)",
        "Caused by: java.io.IOException: x",
        "java.lang.Error: x",
        " ",
        '{"a": 1}',
        "a\0",
    ):
        assert READER.recognise(record(value)) is None


@pytest.mark.parametrize("name", NAMES)
def test_no_source_of_a_recorded_cluster_is_called_not_understood(name: str) -> None:
    recognised = Recognition()
    for r in load([recording(name)], "flink.logs", METRICS)[::11]:
        if (one := READER.recognise(r)) is not None:
            missed = not one.understood
            recognised.fold([SourceSample(r.topic, one.cluster, one.host, 1, missed, one.flink)], r.timestamp)
            assert not [s for s in recognised.sources.values() if s.matters()]
    # A few records of a topic may all be about something else.
    assert all(understood or missed < 10 for understood, missed in recognised.topics.values())


def fed(tester: TwsTester, at: int, seen: int, missed: int, flink: int) -> dict[str, float | None]:
    one = SourceSample("flink.logs", "prod", "tm-1", seen, missed, flink)
    packed = Packed(clocks={"flink.logs/0": at}, wall=10**12, looked=[one] if seen else [])
    rows = tester.test(0, [Row(packed=encode_packed(packed))])
    by_key = {r.key.decode(): r.value and msgspec.json.decode(r.value)["value"] for r in rows if r.topic == "readings"}
    return {key: value for key, value in by_key.items() if "understood" in key}


def test_a_source_is_told_while_it_lasts_and_ends_with_a_tombstone() -> None:
    tester = TwsTester(BucketProcessor(OutputTopics("incidents", "readings", "rejected")))
    ratio = "input_not_understood_ratio|cluster=prod|source=tm-1|topic=flink.logs"
    assert ratio not in fed(tester, 20_000, 100, 100, 3)
    found = fed(tester, 200_000, 100, 99, 0)
    assert found[ratio] == 0.995
    assert found["records_not_understood_total|bucket=0|topic=flink.logs"] == 199
    assert found["records_understood_total|bucket=0|topic=flink.logs"] == 1
    assert fed(tester, 220_000, 100, 0, 0)[ratio] is None


def test_a_source_that_sends_nothing_any_more_is_forgotten_after_an_hour() -> None:
    tester = TwsTester(BucketProcessor(OutputTopics("incidents", "readings", "rejected")))
    ratio = "input_not_understood_ratio|cluster=prod|source=tm-1|topic=flink.logs"
    fed(tester, 20_000, 100, 100, 3)
    times = range(200_000, 4_500_000, 100_000)
    values = [fed(tester, at, 100 if at < 300_000 else 0, 100, 3).get(ratio, -1) for at in times]
    assert values[0] == values[10] == 1
    assert values.count(None) == 1
    assert values[-1] == -1


def test_other_text_and_few_records_are_not_reported() -> None:
    for seen, flink in ((1_000, 0), (10, 10)):
        recognised = Recognition()
        for at in (0, 600_000):
            recognised.fold([SourceSample("t", "c", "h", seen, seen, flink)], at)
        assert bool([s for s in recognised.sources.values() if s.matters()]) == (seen == 1_000 and flink > 0)


def test_what_is_kept_is_bounded() -> None:
    recognised = Recognition()
    for number in range(5_000):
        recognised.fold([SourceSample(f"t{number}", f"c{number}", "h", 1, 1, 1)], number)
    assert (len(recognised.topics), len(recognised.sources)) == (100, 100)
    assert recognised.fold([], 10_000_000) == []
    assert recognised.sources == {}
    names = [record(f'{{"message": "Checkpoint of flink", "fields": {{"cluster": "c{n}"}}}}') for n in range(40)]
    assert sum(counts[0] for counts in looked(names).values()) == 40
    assert bucket_of("", 2) in (0, 1)


def test_the_job_warns_of_a_source_once_an_hour_and_says_when_it_is_over() -> None:
    now = [0.0]
    follower = NotUnderstood(KafkaAccess(bootstrap_servers="127.0.0.1:9"), "flinkwatch.readings", lambda: now[0])
    recognised = Recognition()
    for at in (0, 600_000):
        recognised.fold([SourceSample("flink.logs", "prod", "tm-1", 100, 100, 1)], at)
    (reading,) = [r for r in recognised.readings({}, 600_000) if r.name == "input_not_understood_ratio"]
    key, value = reading.key().encode(), msgspec.json.encode(reading)
    with capture_logs() as logs:
        for at in (0.0, 15.0, 3_601.0):
            now[0] = at
            follower.take(key, value)
        follower.take(b"heap_floor_bytes|cluster=prod", value)
        follower.take(key, b"not a reading")
        follower.take(key, None)
        follower.take(key, None)
    assert [one["log_level"] for one in logs] == ["warning", "warning", "info"]
    named = [logs[0][name] for name in ("topic", "cluster", "source", "share")]
    assert named == ["flink.logs", "prod", "tm-1", 1]
