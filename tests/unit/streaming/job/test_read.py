"""The read stage over Arrow batches, without Spark: the search over raw bytes loses nothing that reading finds."""

import time
from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
import pytest

from detectors.engine.host_clock import Heartbeat
from detectors.events.event import Event, LogEvent, Record, Rejected
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.events.vocabulary import flinkwatch_itself
from detectors.settings.live import RESOLVE_KEY, LiveSettings, PublishedResolution, encode_published, publish
from streaming.job.heartbeat import canary_sent_at, canary_value, heartbeat_headers
from streaming.job.prefilter import may_matter
from streaming.job.read import FLUSH_BYTES, SELECTION, ReadStage
from streaming.job.rows import Packed, bucket_of, decode_packed
from streaming.recordings.replay import load
from tests.recorded import NAMES, recording
from tests.unit.detectors.changes import encode_resolution
from tests.unit.detectors.events.envelopes.test_metrics import VALUES
from tests.unit.detectors.events.envelopes.test_otlp import CHECKPOINT, event_of_flink, logs, metrics
from tests.unit.detectors.events.layouts.test_text_layout import ENVELOPES, LAYOUTS
from tests.unit.sinks.samples import make_transition

METRICS = "flink.metrics"
BUCKETS = 4
NOW = 1_795_227_051_000

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.string()),
    ]
)


def headers_of(record: Record) -> str | None:
    """As Spark's to_json writes them: bytes in base64."""
    pairs = [{"key": k, "value": v} for k, v in record.headers]
    return msgspec.json.encode(pairs).decode() if pairs else None


def batch(records: Iterable[Record]) -> pa.RecordBatch:
    rows = [(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, _as_spark_does(r.headers)) for r in records]
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _as_spark_does(headers: tuple[tuple[str, bytes], ...]) -> str | None:
    """to_json writes binary as base64, as msgspec does."""
    return msgspec.json.encode([{"key": k, "value": v} for k, v in headers]).decode() if headers else None


def written(*batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return ReadStage(Identity(), (METRICS,), "flinkwatch.config", "flinkwatch.heartbeat", BUCKETS).run(iter(batches))


def run(*batches: pa.RecordBatch) -> dict[int, list[Packed[Event]]]:
    packed: dict[int, list[Packed[Event]]] = {}
    for out in written(*batches):
        for row in out.to_pylist():
            packed.setdefault(row["bucket"], []).append(decode_packed(row["packed"]))
    return packed


def read_one_by_one(records: list[Record]) -> tuple[list[Event], list[str]]:
    reader = Reader(Identity(), frozenset({METRICS}))
    found = [reader.read(r) for r in records]
    events = [e for f in found if not isinstance(f, Rejected) for e in f]
    return events, [f.reason for f in found if isinstance(f, Rejected)]


def everything(packed: dict[int, list[Packed[Event]]]) -> tuple[list[Event], list[str]]:
    events = [e for parts in packed.values() for p in parts for e in p.events]
    return events, [letter.reason for parts in packed.values() for p in parts for letter in p.rejected]


def by_place(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda e: (e.topic, e.partition, e.offset, repr(e)))


def test_columns_are_those_of_the_batches() -> None:
    assert tuple(SCHEMA.names) == tuple(SELECTION)


@pytest.mark.parametrize("scenario", NAMES)
def test_nothing_that_reading_finds_is_passed_over(scenario: str) -> None:
    """On every scenario: the events and rejections of the stage are those of reading each record by itself."""
    records = load([recording(scenario)], "flink.logs", METRICS)
    batches = [batch(records[i : i + 1000]) for i in range(0, len(records), 1000)]
    events, reasons = everything(run(*batches))
    expected, expected_reasons = read_one_by_one(records)
    assert by_place(events) == by_place(expected)
    assert sorted(reasons) == sorted(expected_reasons)


def log(value: bytes | None, offset: int = 0, partition: int = 0, timestamp: int = NOW) -> Record:
    return Record("flink.logs", partition, offset, timestamp, b"c/h", value)


HOSTILE = [
    None,
    b"\x00",
    b"a line with \x00 in it",
    "日志".encode("gbk"),
    b"\xff\xfe",
    b"x" * 600_000,
    b'{"message": 5}',
    b'{"message": "cut',
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    b"[1, 2]",
    b"{}",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_cannot_be_read_is_rejected_though_no_literal_is_in_it(value: bytes | None) -> None:
    """Reading it by itself rejects it; the search over raw bytes must not let it pass as uninteresting."""
    records = [log(b"an ordinary line", 0), log(value, 1), log(b'{"message": "an ordinary line"}', 2)]
    events, reasons = everything(run(batch(records)))
    assert events == []
    assert reasons == read_one_by_one(records)[1]
    assert len(reasons) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_the_search_lets_every_layout_in_every_envelope_through(layout: str, envelope: str) -> None:
    value = ENVELOPES[envelope](LAYOUTS[layout]).encode()
    calm = ENVELOPES[envelope]("2026-11-21 02:13:00,000 INFO  x.Y [] - an ordinary line").encode()
    records = [log(value, 0), log(calm, 1)]
    events, reasons = everything(run(batch(records)))
    assert by_place(events) == by_place(read_one_by_one(records)[0])
    assert events
    assert reasons == []
    assert may_matter(pa.array([calm], pa.binary()), metrics=False).to_pylist() == [False]


@pytest.mark.parametrize("envelope", VALUES)
def test_the_search_lets_every_envelope_of_metrics_through(envelope: str) -> None:
    records = [Record(METRICS, 0, 0, NOW, None, VALUES[envelope].encode())]
    events, reasons = everything(run(batch(records)))
    assert len(events) == 1
    assert reasons == []
    uninteresting = VALUES[envelope].replace("Heap", "Pile").encode()
    assert may_matter(pa.array([uninteresting], pa.binary()), metrics=True).to_pylist() == [False]


@pytest.mark.parametrize("value", [b"what is this?", b'{"metrics": 5}', b'{"fields": 1}', b"[]", b'{"name": "x"'])
def test_a_metric_record_that_is_none_is_rejected(value: bytes) -> None:
    _, reasons = everything(run(batch([Record(METRICS, 0, 0, NOW, None, value)])))
    assert len(reasons) == 1


def test_every_bucket_learns_how_far_each_partition_has_come() -> None:
    records = [log(b"x", 0, 0, NOW), log(b"y", 1, 0, NOW + 5), log(b"z", 0, 1, NOW - 7)]
    heartbeat = Record("flinkwatch.heartbeat", 0, 0, NOW + 3, None, b"")
    packed = run(batch([*records, heartbeat]))
    assert sorted(packed) == list(range(BUCKETS))
    for parts in packed.values():
        assert parts[-1].clocks == {"flink.logs/0": NOW + 5, "flink.logs/1": NOW - 7, "flinkwatch.heartbeat/0": NOW + 3}
        assert abs(parts[-1].wall - time.time() * 1000) < 60_000


def test_a_line_of_the_driver_in_a_heartbeat_is_an_event_of_flinkwatchs_own_cluster() -> None:
    heartbeats = [
        Record("flinkwatch.heartbeat", 0, n, NOW + n, None, value)
        for n, value in enumerate((b"", flinkwatch_itself.lost("flink.logs", "0", 7, 50).encode(), b"", None))
    ]
    events, reasons = everything(run(batch([log(b"x", 0, 0, NOW), *heartbeats])))
    assert reasons == []
    assert [(e.cluster, e.event_type, e.fields) for e in events if isinstance(e, LogEvent)] == [
        (
            flinkwatch_itself.CLUSTER,
            "input_lost",
            {"count": "7", "topic": "flink.logs", "partition": "0", "until": "50"},
        )
    ]


def test_a_canary_goes_to_the_watchers_own_bucket_and_is_no_event() -> None:
    """Only the newest canary is kept, and it advances the clock like any other heartbeat."""
    heartbeats = [
        Record("flinkwatch.heartbeat", 0, n, NOW + n, None, canary_value(sent)) for n, sent in enumerate((NOW, NOW + 9))
    ]
    packed = run(batch(heartbeats))
    assert everything(packed) == ([], [])
    own = bucket_of(flinkwatch_itself.CLUSTER, BUCKETS)
    canaries = {n: part.canary for n, parts in packed.items() for part in parts}
    assert canaries == {n: NOW + 9 if n == own else 0 for n in range(BUCKETS)}
    assert packed[own][-1].clocks == {"flinkwatch.heartbeat/0": NOW + 1}


@pytest.mark.parametrize("value", [b"flinkwatch canary", b"flinkwatch canary -5", b"flinkwatch canary 5 x", b"", None])
def test_a_heartbeat_that_is_no_canary_is_none(value: bytes | None) -> None:
    assert canary_sent_at(value) == 0


def test_replay_passes_over_a_recorded_canary() -> None:
    """Neither an event nor a rejection: a recording may hold the heartbeat."""
    record = Record("flinkwatch.heartbeat", 0, 0, NOW, None, canary_value(NOW))
    assert read_one_by_one([record]) == ([], [])


def test_a_configuration_reaches_every_bucket_and_moves_no_clock() -> None:
    """It may have been published days ago: its timestamp says nothing of the stream."""
    published = publish(LiveSettings(), at=1, by="test")
    config = Record("flinkwatch.config", 0, 0, 1, b"detectors", encode_published(published))
    packed = run(batch([config]))
    assert [p.published for parts in packed.values() for p in parts] == [published] * BUCKETS
    assert all(p.clocks == {} for parts in packed.values() for p in parts)


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b'{"hash":"x","at":1,"by":"me","detectors":{"late_barrier_acks":{"min_acks":0}}}']
)
def test_a_configuration_that_is_none_is_rejected_and_changes_nothing(value: bytes) -> None:
    packed = run(batch([Record("flinkwatch.config", 0, 0, 1, b"detectors", value)]))
    assert [p.published for parts in packed.values() for p in parts] == [None] * BUCKETS
    assert everything(packed)[1] == ["bad_config"]


def test_the_resolution_of_an_incident_goes_to_the_bucket_of_its_cluster_alone() -> None:
    asked = PublishedResolution(make_transition(cluster="prod-eu"), 1, "ann", "taken down")
    packed = run(batch([Record("flinkwatch.config", 0, 0, 1, RESOLVE_KEY + b"i", encode_resolution(asked))]))
    found = {number: [one for p in parts for one in p.resolutions] for number, parts in packed.items()}
    assert found == {number: [asked] * (number == bucket_of("prod-eu", BUCKETS)) for number in range(BUCKETS)}


def test_of_several_configurations_in_a_task_only_the_newest_reaches_the_buckets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streaming.job.read.FLUSH_BYTES", 1)
    old, new = (publish(LiveSettings(), at, "ann") for at in (1, 2))
    first, second = (
        Record("flinkwatch.config", 0, offset, 1, b"detectors", encode_published(p))
        for offset, p in enumerate((old, new))
    )
    packed = run(batch([first, log(b"[1, 2]")]), batch([second]))
    for bucket in range(BUCKETS):
        assert [p.published for p in packed[bucket] if p.published is not None] == [new]


def test_a_cluster_is_always_in_the_same_bucket() -> None:
    """State is kept under the bucket: the function may never change."""
    assert [bucket_of(name, 8) for name in ("default", "clickstream", "flink/orders")] == [7, 4, 1]


def test_no_records_give_no_clock() -> None:
    assert all(p.clocks == {} for parts in run().values() for p in parts)


def test_headers_give_the_cluster() -> None:
    line = (
        b"2026-11-21 05:04:11,000 INFO  o.a.f.r.c.CheckpointCoordinator [] - Checkpoint 6 of job "
        + b"ab" * 16
        + b" expired before completing."
    )
    events, _ = everything(
        run(batch([Record("flink.logs", 0, 0, NOW, None, line, (("cluster", b"pay\xc3\xa4"), ("x", b"\xff")))]))
    )
    assert [e.cluster for e in events] == ["payä"]


def test_an_older_arrow_batch_that_comes_later_does_not_turn_a_partitions_clock_back() -> None:
    """Several Arrow batches of one task: the clock of a partition is that of its newest record in any of them."""

    def heartbeat(partition: int, timestamp: int) -> Record:
        return Record("flinkwatch.heartbeat", partition, timestamp, timestamp, None, b"")

    for order in ((0, 1), (1, 0)):
        parts = [batch([heartbeat(0, 5_000), heartbeat(1, 700)]), batch([heartbeat(0, 3_000)])]
        clocks: dict[str, int] = {}
        for packed in run(*(parts[n] for n in order)).values():
            for one in packed:
                clocks |= one.clocks
        assert clocks == {"flinkwatch.heartbeat/0": 5_000, "flinkwatch.heartbeat/1": 700}


def test_the_clock_of_a_partition_is_its_newest_record_whatever_comes_after_it() -> None:
    """Create times do not rise with offsets: a later batch of the same task may be older."""
    batches = [batch([log(b"x", n, timestamp=at)]) for n, at in enumerate((NOW + 5_000, NOW))]
    assert {p.clocks["flink.logs/0"] for parts in run(*batches).values() for p in parts if p.clocks} == {NOW + 5_000}
    two = [batch([log(b"x", n, n % 2, NOW + at)]) for n, at in enumerate((9, 2, 4, 7))]
    clocks = [p.clocks for parts in run(*two).values() for p in parts if p.clocks]
    assert clocks == [{"flink.logs/0": NOW + 9, "flink.logs/1": NOW + 7}] * BUCKETS


def test_every_bucket_learns_how_many_offsets_were_read() -> None:
    """The end of a transaction has an offset and no record; the limit of a batch counts it."""
    parts = [batch([log(b"x", 0), log(b"x", 2)]), batch([log(b"x", 5, 1), log(b"y", 3)]), batch([log(b"x", 6, 1)])]
    assert [p.offsets for one in run(*parts).values() for p in one] == [6] * BUCKETS


def test_the_newest_heartbeat_reaches_every_bucket_and_hostile_ones_none() -> None:
    heartbeats = [Heartbeat("0000000a", 1_000 * n, NOW + 1_000 * n) for n in range(3)]
    records = [
        Record("flinkwatch.heartbeat", 0, n, NOW, None, b"", tuple(heartbeat_headers(one)))
        for n, one in enumerate(heartbeats)
    ]
    records.append(Record("flinkwatch.heartbeat", 0, 9, NOW, None, b"", (("heartbeat", b"0000000a -5 \xff"),)))
    packed = [p for parts in run(batch(records)).values() for p in parts]
    assert [(p.heartbeat, p.heartbeat_partition) for p in packed] == [
        (heartbeats[2], "flinkwatch.heartbeat/0")
    ] * BUCKETS
    assert [p.rejected for p in packed] == [[]] * BUCKETS


def page(cluster: str, offset: int, samples: int = 600) -> Record:
    """A scrape of one TaskManager with `samples` samples that detectors use."""
    series = (
        'flink_taskmanager_job_task_backPressuredTimeMsPerSecond{{job_id="{}",task_name="map",subtask_index="{}"}} 5'
    )
    value = "\n".join(series.format("ab" * 16, n) for n in range(samples))
    return Record(METRICS, 0, offset, NOW + offset, None, value.encode(), (("cluster", cluster.encode()),))


def test_a_backlog_of_scrape_pages_is_written_in_small_rows_and_loses_nothing() -> None:
    """Also within one Arrow batch, since the JVM holds several copies of a row."""
    clusters = [f"cluster-{number}" for number in range(3)]
    records = [page(clusters[n % 3], n) for n in range(600)]
    batches = list(written(batch(records[:400]), batch(records[400:])))
    largest = max(sum(len(row) for row in out.column("packed").to_pylist()) for out in batches)
    assert FLUSH_BYTES / 2 < largest < FLUSH_BYTES * 1.1
    read = [row for out in batches for row in out.to_pylist()]
    found = {c: [e.offset for r in read for e in decode_packed(r["packed"]).events if e.cluster == c] for c in clusters}
    assert found == {cluster: list(range(n, 600, 3)) for n, cluster in enumerate(clusters)}


def test_a_backlog_of_hostile_records_is_written_in_small_rows_and_loses_nothing() -> None:
    records = [log(b"\0" * 300_000, n) for n in range(50)]
    batches = list(written(batch(records)))
    assert max(len(row) for out in batches for row in out.column("packed").to_pylist()) < FLUSH_BYTES * 1.1
    letters = [e for out in batches for row in out.column("packed").to_pylist() for e in decode_packed(row).rejected]
    assert [letter.key for letter in letters] == [f"flink.logs/0/{n}".encode() for n in range(50)]


def test_protobuf_between_texts_is_read_and_what_is_passed_over_is_counted() -> None:
    """As it comes from two collectors and a shipper of raw lines on one topic; nothing is taken for something else."""
    records = [
        log(logs("Checkpoint 6 expired before completing.").SerializeToString(), 0),
        log(b"an ordinary line", 1),
        log(event_of_flink("JobFailureEvent", canRestart="true").SerializeToString(), 2),
        log(event_of_flink("CheckpointEvent", **CHECKPOINT).SerializeToString(), 3),
        log(b"\n\xff", 4),
        Record(
            METRICS, 0, 5, NOW, None, metrics(flink_jobmanager_numRegisteredTaskManagers=2, x=1).SerializeToString()
        ),
    ]
    packed = run(batch(records[:5]), batch(records[5:]))
    events, reasons = everything(packed)
    expected, _ = read_one_by_one(records)
    assert by_place(events) == by_place(expected)
    assert [e.offset for e in by_place(events)] == [0, 2, 3, 5]
    assert reasons == ["not_otlp"]
    (ignored,) = [p.ignored for parts in packed.values() for p in parts if p.ignored]
    assert ignored == {METRICS: {"unknown_metric": 1}}
