"""One Spark session that starts the query on damaged copies of a checkpoint: each start costs seconds, not a minute."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from detectors.incident import decode_transition
from streaming.configuration.settings import Settings, Streaming
from streaming.errors import PreflightError
from streaming.job.checkpoint.guard import check_layout
from streaming.job.preflight import check_topics, starting_offsets
from streaming.job.query import start_query
from streaming.job.spark.jvm import Jvm
from streaming.job.spark.session import start_session_while
from streaming.job.supervisor import explained
from streaming.threads import Stop
from tests.e2e.harness import Installation
from tests.reliability.job_chain import portions

Said = Counter[tuple[str, int, str]]
_WITHIN_S = 240.0


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session of the product in a JVM of its own."""
    jvm = Jvm()
    try:
        yield start_session_while(lambda: None, Streaming(master="local[2]"), jvm, Stop())[0]
    finally:
        jvm.end()


class Damaged:
    """A checkpoint of two batches and what the query says of the records that came after them."""

    def __init__(self, spark: SparkSession, here: Installation) -> None:
        self.spark, self.here = spark, here
        self.settings = Settings.model_validate(here.configuration)
        self.checkpoint = Path(self.settings.streaming.checkpoint)
        self.whole = here.folder / "whole"
        here.create_inputs()
        self._offsets = starting_offsets(self.settings, check_topics(self.settings))
        first, second, rest = portions()
        for batch, portion in enumerate((first, second)):
            here.send(portion)
            query = self.start()
            self._await(lambda batch=batch, query=query: _finished(query, batch), query)  # type: ignore[misc]
            query.stop()
        shutil.move(self.checkpoint, self.whole)
        here.send(rest)
        shutil.copytree(self.whole, self.checkpoint)
        self.expected = self.outcome()
        assert isinstance(self.expected, Counter)
        assert self.expected

    def start(self) -> StreamingQuery:
        check_layout(self.spark, self.settings)
        return start_query(self.spark, self.settings, self._offsets)

    def outcome(self, last: int = 2) -> Said | str:
        """What the query says until it has finished batch `last`, or the line with which the process would end."""
        before = self._said()
        try:
            query = self.start()
        except (PreflightError, PySparkException, Py4JError) as error:
            return explained(error, str(self.checkpoint)).line
        try:
            self._await(lambda: not query.isActive or _finished(query, last), query)
            if (error := query.exception()) is not None:
                (self.here.folder / "error.txt").write_text(str(error))
                return explained(error, str(self.checkpoint)).line
            return self._said() - before
        finally:
            query.stop()

    def with_damage(self, pattern: str, damage: Callable[[bytes], bytes] | None) -> tuple[Path, Said | str]:
        """The outcome with the newest file of `pattern` damaged, or without the files of `pattern`."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        shutil.copytree(self.whole, self.checkpoint)
        files = sorted(self.checkpoint.glob(pattern), key=lambda file: file.stat().st_mtime_ns)
        assert files, f"no {pattern} in {self.checkpoint}"
        for file in files if damage is None else [f for f in files if f.is_file() and f.name[:2] == files[-1].name[:2]]:
            if damage is not None:
                file.write_bytes(damage(file.read_bytes()))
            elif file.is_dir():
                shutil.rmtree(file)
            else:
                file.unlink()
        return files[-1], self.outcome()

    def _said(self) -> Said:
        values = map(decode_transition, self.here.values("incidents"))
        return Counter((t.incident, t.seq, t.summary) for t in values)

    def _await(self, met: Callable[[], bool], query: StreamingQuery) -> None:
        deadline = time.monotonic() + _WITHIN_S
        while not met():
            assert time.monotonic() < deadline, query.status
            time.sleep(0.1)


def _finished(query: StreamingQuery, batch: int) -> bool:
    return any(p["batchId"] >= batch and "addBatch" in p["durationMs"] for p in query.recentProgress)


def empty(_: bytes) -> bytes:
    return b""


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    """One bit of the middle is another one."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]
