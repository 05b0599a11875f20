"""An error in a task ends in one line that says where."""

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from detectors.engine import bucket
from detectors.events.event import LogEvent, Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from streaming.job.read import ReadStage
from streaming.job.rows import Packed, decode_packed, encode_packed
from streaming.job.spark.spark_errors import StageError, cause_of, extent, naming
from streaming.job.watch import BucketProcessor, OutputTopics
from tests.unit.streaming.job.test_read import batch

LINE = b"2026-11-21 02:10:52,332 INFO  a.b.CheckpointCoordinator [] - Completed checkpoint 1 for job " + b"a" * 32
STAGE = ReadStage(Identity(), ("flink.metrics",), "flinkwatch.config", "flinkwatch.heartbeat", 2)


def records(*offsets: int) -> list[Record]:
    return [Record("flink.logs", 3, n, 1_000, b"prod/jm-1", LINE) for n in offsets]


def letters(rows: list[object]) -> list[bytes]:
    return [letter.value for out in rows for row in out.column(1) for letter in decode_packed(row.as_py()).rejected]  # type: ignore[attr-defined]


def test_an_error_of_reading_one_record_rejects_it_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Reader.read
    monkeypatch.setattr(Reader, "read", lambda self, r: {}[0] if r.offset == 6 else one(self, r))
    found = letters([*STAGE.run(iter([batch(records(5, 6, 7))]))])
    assert len(found) == 1
    assert b'"reason":"defect","detail":"KeyError: 0","topic":"flink.logs","partition":3,"offset":6' in found[0]


def test_an_event_that_cannot_be_carried_is_rejected_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def event(offset: int) -> LogEvent:
        return LogEvent("m", "c", "s", "h", 5, 2**70 if offset == 6 else 5, "flink.logs", 3, offset, {}, "t")

    monkeypatch.setattr(Reader, "read", lambda _, r: [event(r.offset)])
    rows = [*STAGE.run(iter([batch(records(5, 6, 7))]))]
    packed = [decode_packed(row.as_py()) for out in rows for row in out.column(1)]
    assert [e.offset for p in packed for e in p.events] == [5, 7]
    (found,) = letters(list(rows))
    assert b"OverflowError" in found
    assert b"2**70" in found or str(2**70).encode() in found


def test_an_error_of_a_whole_batch_names_topic_partition_offsets_and_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise MemoryError("no\nroom")

    monkeypatch.setattr("streaming.job.read.may_matter", fails)
    with pytest.raises(StageError) as raised:
        list(STAGE.run(iter([batch(records(5, 6, 17))])))
    assert str(raised.value) == "read stage failed at flink.logs/3 offsets 5 to 17: MemoryError: no room"


def test_an_error_of_the_watch_stage_names_the_bucket_and_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "step", lambda *_: 1 / 0)
    event = LogEvent("m", "c", "s", "h", 5, 5, "flink.logs", 3, 9, {}, "t")
    tester = TwsTester(BucketProcessor(OutputTopics("i", "r", "d")))
    with pytest.raises(StageError) as raised:
        tester.test(1, [Row(packed=encode_packed(Packed(clocks={"flink.logs/3": 5}, wall=9, events=[event])))])
    line = "watch stage failed at bucket 1 with flink.logs/3 offset 9: ZeroDivisionError: division by zero"
    assert str(raised.value) == line


def test_the_line_is_found_amid_the_traces_of_two_languages() -> None:
    trace = (
        "[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure\n"
        "org.apache.spark.SparkException: Job aborted\n"
        "Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        "KeyError: 'x'\n\nThe above exception was the direct cause of the following exception:\n\n"
        "streaming.job.spark.spark_errors.StageError: read stage failed at flink.logs/3 offset 5: KeyError: 'x'\n\n"
        "\tat org.apache.spark.Foo.bar\nCaused by: java.io.IOException: gone\n"
    )
    assert cause_of(RuntimeError(trace)) == "read stage failed at flink.logs/3 offset 5: KeyError: 'x'"


def test_an_extent_of_many_partitions_is_cut() -> None:
    assert extent(("t", p, 5) for p in range(7)).endswith("t/4 offset 5, 2 more partitions")
    assert extent([]) == "no record"


def test_an_error_that_is_named_already_stays_as_it_is() -> None:
    with pytest.raises(StageError, match=r"^inner$"), naming("read", lambda: "x"):
        raise StageError("inner")
