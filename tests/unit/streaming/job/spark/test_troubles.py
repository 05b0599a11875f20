"""What Spark reports, as a sentence: parts of errors that the real thing reported."""

import pytest

from streaming.job.spark.troubles import NEVER, PASSES, UNKNOWN, WAITS, trouble_of

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


def test_a_damaged_checkpoint_says_how_to_go_on() -> None:
    trouble = trouble_of("[MISSING_STATE_DIRECTORY] x", "hdfs://nn/state")
    assert "hdfs://nn/state" in trouble.line
    assert "flinkwatch rebuild" in trouble.line
