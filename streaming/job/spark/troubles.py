"""Errors of Spark and of the job's stages, in one sentence that says what is wrong, where, and what to do.

Each trouble also has a limit: how often within an hour `flinkwatch run` restarts the query by itself.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

NEVER = 0
"""A restart would fail in the same way, or do harm."""
UNKNOWN = 3
"""An unknown failure. A few restarts do no harm, since each continues from the checkpoint."""
PASSES = 10
"""A problem outside flinkwatch that usually passes within minutes."""
WAITS = 60
"""A problem that a person must fix; flinkwatch retries for about an hour, with pauses of 60 s."""

NO_SPACE = "No space left on the disk of "
REBUILD = "`flinkwatch rebuild` creates a new checkpoint from Kafka without repeating notifications"
RESTORE = f"restore a copy of the checkpoint, or: {REBUILD}"

_MAX_PLACES = 5
_PREFIX = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")


class StageError(Exception):
    """A stage of the job failed; the message names the records that it processed, and the error.

    Only its text reaches the driver, inside the stack traces of two languages, where `cause_of` finds it.
    """


@contextmanager
def naming(stage: str, where: Callable[[], str]) -> Iterator[None]:
    """Turn an error inside the block into a StageError that names the stage and `where` it failed."""
    try:
        yield
    except StageError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise StageError(f"{stage} stage failed at {where()}: {type(error).__name__}: {text}") from error


def extent(places: Iterable[tuple[str, int, int]]) -> str:
    """Describe records given by (topic, partition, offset), such as `flink.logs/0 offsets 5 to 17`."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for topic, partition, offset in places:
        first, last = found.get((topic, partition), (offset, offset))
        found[topic, partition] = min(first, offset), max(last, offset)
    ranges = [
        f"{topic}/{partition} " + (f"offset {first}" if first == last else f"offsets {first} to {last}")
        for (topic, partition), (first, last) in sorted(found.items())
    ]
    more = [f"{len(ranges) - _MAX_PLACES} more partitions"] if len(ranges) > _MAX_PLACES else []
    return ", ".join(ranges[:_MAX_PLACES] + more) or "no record"


class QueryTrouble(NamedTuple):
    """What went wrong, in one line, and how often within an hour the query may be restarted for it.

    If `memory` was short, the same batch would fail again.
    """

    line: str
    limit: int = UNKNOWN
    memory: bool = False


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    line: str
    limit: int
    memory: bool


def _rule(pattern: str, line: str, limit: int = NEVER, *, memory: bool = False) -> _Rule:
    return _Rule(re.compile(pattern), line, limit, memory)


# The first rule whose pattern matches anywhere in the error, including stack traces, applies. {checkpoint} is
# streaming.checkpoint; named groups of the pattern can also be used.
_RULES = (
    _rule(
        r"No space left on device|Disk quota exceeded|There is not enough space",
        NO_SPACE + "{checkpoint} or of the temporary directory: free some space, nothing is lost",
        WAITS,
    ),
    _rule(
        r"Read-only file system",
        "The file system of {checkpoint} or of the temporary directory is read-only: mount it writable",
        WAITS,
    ),
    _rule(
        r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using|CONCURRENT_QUERY",
        "Another job uses the same checkpoint {checkpoint}: stop one of the two, or set another streaming.checkpoint "
        "and kafka.topics.prefix for it",
    ),
    _rule(r"(?:Incomplete log file|Checksum error:) (?:file:)?(?P<file>\S+)", "{file} is empty or damaged: " + RESTORE),
    _rule(
        r"MISSING_STATE_DIRECTORY|STATE_STORE_STATE_DIRECTORY|Cannot find .*state directory",
        "The checkpoint {checkpoint} has lost its folder `state`: " + RESTORE,
    ),
    _rule(
        r"INVALID_CHANGE_LOG_READER_VERSION|INVALID_LOG_VERSION|UnsupportedLogVersion|MALFORMED_LOG_FILE|"
        r"CHECKPOINT_FORMAT|INCOMPATIBLE_CHECKPOINT|STATE_STORE_.*VERSION.*UNSUPPORTED|Unsupported.*checkpoint version",
        "The checkpoint {checkpoint} was written by another version or is damaged: start the version that wrote it, "
        + RESTORE,
    ),
    _rule(
        r"STATE_STORE_.*SCHEMA|STATE_STORE_.*COLUMN_FAMILY|STDS_|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|"
        r"STREAMING_STATEFUL_OPERATOR_MISSING",
        "The state in {checkpoint} was written by an incompatible version: start that version, or: " + REBUILD,
    ),
    _rule(
        r"CANNOT_LOAD_STATE_STORE|STATE_STORE_.*CHECKSUM|CANNOT_READ_DELTA_FILE|CANNOT_READ_.*SNAPSHOT|"
        r"Corruption: |ZipException|FAILED_READ_FILE|CANNOT_READ_STATE|EOFException.*hangelog|SNAPSHOT_PARTITION_ID",
        "The state in {checkpoint}/state is damaged or incomplete: " + RESTORE,
    ),
    _rule(
        r"(?P<kind>UnknownTopicOrPartitionException|UnknownTopicIdException|This server does not host this "
        r"topic-partition)",
        "A Kafka topic was deleted or does not exist yet",
        PASSES,
    ),
    _rule(
        r"TopicAuthorizationException|GroupAuthorizationException|ClusterAuthorizationException|"
        r"SaslAuthenticationException|SslAuthenticationException",
        "Kafka refuses flinkwatch's login or permissions: check kafka.access and the ACLs of the brokers",
        WAITS,
    ),
    _rule(
        r"Python worker failed to connect back|Timed out while waiting for the Python worker",
        "The host is overloaded: Spark's Python worker took longer than 10 s to start",
        PASSES,
    ),
    _rule(
        r"OutOfMemory|UNABLE_TO_ACQUIRE_MEMORY|MemoryError|Cannot allocate memory",
        "Spark or one of its Python workers ran out of memory",
        PASSES,
        memory=True,
    ),
    _rule(
        r"Python worker exited unexpectedly|Failed to launch Python daemon|No port number in .*daemon|"
        r"Python daemon failed to launch|PYTHON_DAEMON|BrokenPipe|Stream closed|Broken pipe|"
        r"Connection reset|java\.io\.EOFException",
        "A Python worker of Spark exited or was killed, probably by the kernel because memory was short",
        PASSES,
        memory=True,
    ),
    _rule(
        r"Timestamp (?P<at>\d+) of message with offset \d+ is out of range",
        "The clock of this host is wrong, and Kafka refuses its timestamps: correct the clock (chronyc tracking) and "
        "let Kafka set the timestamps of flinkwatch's topics (message.timestamp.type=LogAppendTime)",
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
    """The trouble behind `error`, which may also be Spark's message as text."""
    text = error if isinstance(error, str) else str(error or "")
    cause = _PREFIX.sub("", cause_of(text or None))
    for rule in _RULES:
        if found := rule.pattern.search(text):
            named = {name: (value or "").rstrip(".,;:") for name, value in found.groupdict().items()}
            line = rule.line.format(checkpoint=checkpoint, **named)
            detail = "" if cause in line or rule.limit == NEVER else f" ({cause})"
            return QueryTrouble(f"{line}{detail}", rule.limit, rule.memory)
    return QueryTrouble(f"The query failed: {cause}")


def cause_of(error: BaseException | str | None) -> str:
    """The root cause of an error in one line."""
    text = str(error) if error is not None else "the query ended"
    named = re.search(r"StageError: ([^\n]*)", text)
    if named is not None:
        return named[1].strip()[:500]
    causes = re.findall(r"(?:Caused by: |^)([\w.$]+(?:Error|Exception)[^\n]*)", text, re.MULTILINE)
    line = causes[-1] if causes else next((x for x in text.splitlines() if x.strip()), text)
    return line.strip()[:500]
