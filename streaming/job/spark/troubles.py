"""From what Spark reports when a query fails to one sentence that says what is wrong, where, and what to do.

Each trouble also says whether `flinkwatch run` starts the query again by itself, and how often within an hour.
"""

import re
from typing import NamedTuple

from streaming.job.spark.spark_errors import cause_of

NEVER = 0
"""The next start would fail the same way, or make it worse."""
UNKNOWN = 3
"""Nothing is known about this failure: a few starts do no harm, since each goes on from the checkpoint."""
PASSES = 10
"""Something outside flinkwatch, which usually passes within minutes."""
WAITS = 60
"""A person has to act, and there is nothing to do but wait: about an hour of pauses of 60 s."""

NO_SPACE = "No space left on the disk of "
REBUILD = "`flinkwatch rebuild` makes a new checkpoint from Kafka without notifying again"
RESTORE = f"restore a copy of the checkpoint, or: {REBUILD}"


_PREFIX = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")


class QueryTrouble(NamedTuple):
    """What went wrong, in one line, and how often within an hour the query may be started again for it."""

    line: str
    limit: int = UNKNOWN


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    line: str
    limit: int


def _rule(pattern: str, line: str, limit: int = NEVER) -> _Rule:
    return _Rule(re.compile(pattern), line, limit)


# The first that matches anywhere in the error, stack traces included, applies. {checkpoint} is streaming.checkpoint;
# named groups of the pattern are filled in as well.
_RULES = (
    _rule(
        r"No space left on device|Disk quota exceeded|There is not enough space",
        NO_SPACE + "{checkpoint} or of the temporary directory: free some, nothing is lost",
        WAITS,
    ),
    _rule(
        r"Read-only file system",
        "The file system of {checkpoint} or of the temporary directory is read-only: mount it for writing",
        WAITS,
    ),
    _rule(
        r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using|CONCURRENT_QUERY",
        "Another job uses the same checkpoint {checkpoint}: stop one of the two, or give it a streaming.checkpoint and "
        "a kafka.topics.prefix of its own",
    ),
    _rule(
        r"(?:Incomplete log file|Checksum error:) (?:file:)?(?P<file>\S+)",
        "{file} is empty or damaged: " + RESTORE,
    ),
    _rule(
        r"MISSING_STATE_DIRECTORY|STATE_STORE_STATE_DIRECTORY|Cannot find .*state directory",
        "The checkpoint {checkpoint} has lost its folder `state`: " + RESTORE,
    ),
    _rule(
        r"INVALID_CHANGE_LOG_READER_VERSION|INVALID_LOG_VERSION|UnsupportedLogVersion|MALFORMED_LOG_FILE|"
        r"CHECKPOINT_FORMAT|INCOMPATIBLE_CHECKPOINT|STATE_STORE_.*VERSION.*UNSUPPORTED|Unsupported.*checkpoint version",
        "The checkpoint {checkpoint} was written by another version, or is damaged: start the version that wrote it, "
        + RESTORE,
    ),
    _rule(
        r"STATE_STORE_.*SCHEMA|STATE_STORE_.*COLUMN_FAMILY|STDS_|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|"
        r"STREAMING_STATEFUL_OPERATOR_MISSING",
        "The state in {checkpoint} was written by a version with another state: start that version, or: " + REBUILD,
    ),
    _rule(
        r"CANNOT_LOAD_STATE_STORE|STATE_STORE_.*CHECKSUM|CANNOT_READ_DELTA_FILE|CANNOT_READ_.*SNAPSHOT|"
        r"Corruption: |ZipException|FAILED_READ_FILE|CANNOT_READ_STATE|EOFException.*hangelog|SNAPSHOT_PARTITION_ID",
        "The state in {checkpoint}/state is damaged or incomplete: " + RESTORE,
    ),
    _rule(
        r"(?P<kind>UnknownTopicOrPartitionException|UnknownTopicIdException|This server does not host this "
        r"topic-partition)",
        "A topic of Kafka was deleted or is not there yet",
        PASSES,
    ),
    _rule(
        r"TopicAuthorizationException|GroupAuthorizationException|ClusterAuthorizationException|"
        r"SaslAuthenticationException|SslAuthenticationException",
        "Kafka refuses flinkwatch's login or its rights: look at kafka.access and at the broker's ACLs",
        WAITS,
    ),
    _rule(
        r"Python worker failed to connect back|Timed out while waiting for the Python worker",
        "The host is too busy: Spark's Python worker took longer than 10 s to start",
        PASSES,
    ),
    _rule(
        r"Python worker exited unexpectedly|Failed to launch Python daemon|No port number in .*daemon|"
        r"Python daemon failed to launch|PYTHON_DAEMON|BrokenPipe|Stream closed|Broken pipe|"
        r"Connection reset|java\.io\.EOFException",
        "A Python worker of Spark ended or was killed, as the kernel does when memory is short",
        PASSES,
    ),
    _rule(
        r"Timestamp (?P<at>\d+) of message with offset \d+ is out of range",
        "The clock of this host is wrong, and Kafka refuses what it dates: set the clock (chronyc tracking), and let "
        "Kafka date flinkwatch's topics (message.timestamp.type=LogAppendTime)",
        WAITS,
    ),
    _rule(
        r"ExecutorLostFailure|indeterminate output|SparkContext was shut down|has been shut ?down|stopped SparkContext",
        "Spark lost an executor or its context",
        PASSES,
    ),
    _rule(
        r"org\.apache\.kafka\.common\.errors\.\w*(Timeout|Disconnect|Network|NotLeader|NotEnoughReplicas|Coordinator|"
        r"LeaderNotAvailable|BrokerNotAvailable|ListenerNotFound|KafkaStorage|RetriableCommit|Retriable)\w*|"
        r"KafkaException: Failed to construct kafka|No resolvable bootstrap urls",
        "Kafka does not answer",
        PASSES,
    ),
)


def trouble_of(error: BaseException | str | None, checkpoint: str) -> QueryTrouble:
    """What `error`, or what Spark says as text, means to the person who has to act."""
    text = error if isinstance(error, str) else str(error or "")
    cause = _PREFIX.sub("", cause_of(text or None))
    for rule in _RULES:
        if found := rule.pattern.search(text):
            line = rule.line.format(checkpoint=checkpoint, **_known(found))
            detail = "" if cause in line or rule.limit == NEVER else f" ({cause})"
            return QueryTrouble(f"{line}{detail}", rule.limit)
    return QueryTrouble(f"The query failed: {cause}")


def _known(found: re.Match[str]) -> dict[str, str]:
    return {name: (value or "").rstrip(".,;:") for name, value in found.groupdict().items()}
