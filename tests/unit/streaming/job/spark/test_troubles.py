"""What Spark reports, as a sentence: parts of errors that the real thing reported, and errors in a task."""

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from detectors.engine import bucket
from detectors.events.event import LogEvent, Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from streaming.job.read import ReadStage
from streaming.job.rows import Packed, decode_packed, encode_packed
from streaming.job.spark.troubles import NEVER, PASSES, UNKNOWN, WAITS, StageError, cause_of, extent, naming, trouble_of
from streaming.job.watch import BucketProcessor, OutputTopics
from tests.unit.streaming.job.test_read import batch

_STREAM = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "

SEEN = {
    "Job aborted\nCaused by: java.io.IOException: No space left on device\n\tat java.base/x": (
        WAITS,
        "No space left on the disk of /state",
    ),
    "Caused by: java.nio.file.FileSystemException: /state/offsets: Read-only file system": (WAITS, "is read-only"),
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.": (NEVER, "Another job uses the same checkpoint"),
    "[MISSING_STATE_DIRECTORY] x": (NEVER, "has lost its folder `state`: restore a copy"),
    "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_MISSING_SNAPSHOT_FILE] x": (NEVER, "The state in /state/state is damaged"),
    "java.lang.IllegalStateException: Incomplete log file file:/state/offsets/0": (NEVER, "/state/offsets/0 is empty"),
    "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/state/metadata at 0 exp: 1 got: 2": (
        NEVER,
        "/state/metadata is empty or damaged",
    ),
    "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x": (
        PASSES,
        "A Kafka topic was deleted",
    ),
    "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [t]": (
        WAITS,
        "Kafka refuses",
    ),
    "Caused by: org.apache.spark.SparkException: Python worker failed to connect back.": (
        PASSES,
        "The host is overloaded: Spark's Python worker took longer than 10 s to start",
    ),
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider": (
        PASSES,
        "A Python worker of Spark exited or was killed",
    ),
    "java.lang.OutOfMemoryError: Java heap space": (PASSES, "Spark or one of its Python workers ran out of memory"),
    "pyspark.errors.exceptions.base.PySparkException: x\nMemoryError": (
        PASSES,
        "Spark or one of its Python workers ran",
    ),
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)": (PASSES, "Spark lost an executor"),
    "org.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata after 60000 ms.": (
        PASSES,
        "Kafka does not answer",
    ),
    "org.apache.kafka.common.InvalidRecordException: Timestamp 17 of message with offset 0 is out of range.": (
        WAITS,
        "The clock of this host is wrong, and Kafka refuses its timestamps",
    ),
    "java.lang.IllegalStateException: what nobody has seen": (UNKNOWN, "The query failed: java.lang.Illegal"),
}


@pytest.mark.parametrize("message", SEEN)
def test_each_failure_is_one_sentence_and_says_whether_it_is_tried_again(message: str) -> None:
    limit, begins = SEEN[message]
    trouble = trouble_of(_STREAM + message, "/state")
    assert trouble.limit == limit
    assert begins in trouble.line
    assert "\n" not in trouble.line


def test_only_a_lack_of_memory_says_that_the_same_batch_would_fail_again() -> None:
    short = [message for message in SEEN if trouble_of(_STREAM + message, "/state").memory]
    assert len(short) == 3
    assert all("Memory" in message or "worker exited" in message for message in short)


def test_a_damaged_checkpoint_says_how_to_go_on() -> None:
    trouble = trouble_of("[MISSING_STATE_DIRECTORY] x", "hdfs://nn/state")
    assert "hdfs://nn/state" in trouble.line
    assert "flinkwatch rebuild" in trouble.line


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
        "streaming.job.spark.troubles.StageError: read stage failed at flink.logs/3 offset 5: KeyError: 'x'\n\n"
        "\tat org.apache.spark.Foo.bar\nCaused by: java.io.IOException: gone\n"
    )
    assert cause_of(RuntimeError(trace)) == "read stage failed at flink.logs/3 offset 5: KeyError: 'x'"


def test_an_extent_of_many_partitions_is_cut() -> None:
    assert extent(("t", p, 5) for p in range(7)).endswith("t/4 offset 5, 2 more partitions")
    assert extent([]) == "no record"


def test_an_error_that_is_named_already_stays_as_it_is() -> None:
    with pytest.raises(StageError, match=r"^inner$"), naming("read", lambda: "x"):
        raise StageError("inner")
