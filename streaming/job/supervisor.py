"""Supervises the running query: follows its progress, restarts it after failures where that is safe, and stops it."""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from streaming.configuration.settings import Settings
from streaming.errors import JobError, PreflightError, RestartNeededError, TopicMissingError
from streaming.job.batch_limit import BatchLimit
from streaming.job.checkpoint.files import damage_in, room_left
from streaming.job.checkpoint.offset_log import shorten_planned
from streaming.job.checkpoint.offsets import Offsets, between, parsed
from streaming.job.checkpoint.starts import Start, keep_limit, note_end, note_start
from streaming.job.checkpoint.topic_ids import Places, correct_offsets, keep_gaps, kept_gaps
from streaming.job.clock_set_back import ClockWatch
from streaming.job.data_loss import DataLossWatch
from streaming.job.health import Health
from streaming.job.query import start_query
from streaming.job.restarts import Restarts
from streaming.job.spark.jvm import Jvm
from streaming.job.spark.session import start_session_while
from streaming.job.spark.troubles import NEVER, NO_SPACE, PASSES, UNKNOWN, QueryTrouble, cause_of, trouble_of
from streaming.job.telemetry import Telemetry
from streaming.threads import Stop

log = structlog.get_logger()

DRAIN_S = 30.0
_POLL_S = 0.5
_GONE_WITHIN_S = 5.0
_REPORT_SLOW_EVERY_S = 30.0


class _QueryEndedError(Exception):
    """The query ended; the message is Spark's."""


# py4j raises a plain OSError if the JVM is gone.
_FAILURES = (PySparkException, Py4JError, OSError, _QueryEndedError, PreflightError, RestartNeededError)


@dataclass
class QuerySupervisor:
    """Runs the query and restarts it, with everything that outlives a single run of it."""

    settings: Settings
    jvm: Jvm
    stop: Stop
    health: Health
    gaps: DataLossWatch
    telemetry: Telemetry
    ask_kafka: Callable[[], Offsets]
    """Waits for the brokers, checks the topics, and returns the starting offsets of a query without a checkpoint."""

    def __post_init__(self) -> None:
        self._restarts = Restarts()
        self._kept_gaps: Places = []
        self._start: Start | None = None
        self._limit = BatchLimit(self.settings.streaming.max_offsets_per_trigger)

    def run(self, spark: SparkSession, offsets: Offsets, begun: Callable[[], None]) -> None:
        """Run until `stop`; `begun` is called once, after the first start. Raises JobError."""
        try:
            self._run(spark, offsets, begun)
        finally:
            # A JVM that has gone cannot note anything.
            if self._start is not None:
                with suppress(*_FAILURES):
                    note_end(self.jvm.session or spark, self.settings.streaming.checkpoint, self._start)

    def _run(self, spark: SparkSession, offsets: Offsets, begun: Callable[[], None]) -> None:
        first = True
        while True:
            try:
                if first:
                    self._resume(spark)
                    self._kept_gaps = kept_gaps(spark, self.settings.streaming.checkpoint)
                    self.gaps.resume(self._kept_gaps)
                else:
                    self.gaps.corrected(correct_offsets(spark, self.settings))
                query = start_query(spark, self._limited(spark), offsets, self._limit.full_at)
                if first:
                    begun()
                    first = False
                if self._follow(spark, query):
                    return
            except _FAILURES as error:
                again = self._after(error)
                if again is None:
                    return
                offsets, spark = again, self.jvm.session or spark

    def _after(self, error: BaseException) -> Offsets | None:
        """Prepare a restart, in a new JVM if the old one is gone. Returns the starting offsets, None to stop."""
        while not self._is_to_end() and self._recovers(error):
            try:
                if self.jvm.gone() is None:
                    return self.ask_kafka()
                log.info("restarting Spark")
                return start_session_while(self.ask_kafka, self.settings.streaming, self.jvm, self.stop)[1]
            except _FAILURES as next_error:
                error = next_error
        return None

    def _resume(self, spark: SparkSession) -> None:
        """Once: continue with the batch limit of the last process, or a lower one if one batch ended several."""
        if self._start is not None:
            return
        self._start = start = note_start(spark, self.settings.streaming.checkpoint)
        self._limit.resume(start.max_offsets, start.ended)
        if start.ended > 1:
            ended = "processes in a row were killed during the same batch, as they are when memory is short"
            log.warning(ended, batch=start.batch, processes=start.ended)

    def _limited(self, spark: SparkSession) -> Settings:
        """The settings with the limit in force, to which a batch that failed twice is shortened."""
        limit = self._limit.offsets
        if self._start is not None:
            kept = limit if self._limit.is_lowered else 0
            self._start = keep_limit(spark, self.settings.streaming.checkpoint, self._start, kept)
        if not self._limit.is_lowered:
            return self.settings
        again = self._limit.is_failing_again
        planned = shorten_planned(spark, self.settings.streaming.checkpoint, limit) if again else 0
        shortened = {"shortened_from": planned} if planned else {}
        log.warning("batches are smaller because memory was probably short", max_offsets=limit, **shortened)
        streaming = self.settings.streaming.model_copy(update={"max_offsets_per_trigger": limit})
        return self.settings.model_copy(update={"streaming": streaming})

    def _follow(self, spark: SparkSession, query: StreamingQuery) -> bool:
        """Follow the query until `stop`; False if it has to start again so that its batches may be larger."""
        first, clock = _FirstBatch(), ClockWatch()
        try:
            while not self.stop.wait(_POLL_S):
                clock.look()
                if not query.isActive:
                    raise _QueryEndedError(str(query.exception() or "the query ended"))
                progress = query.lastProgress
                first.look(progress is not None)
                if progress is not None:
                    self.health.finished(progress["batchId"])
                    self._look_for_gaps(spark, progress)
                    self.telemetry.progressed(progress, lambda: query.recentProgress)
                    if self._limit.rises(_read(progress)):
                        log.info("batches may be larger again", max_offsets=self._limit.offsets)
                        self._drain(query)
                        query.stop()
                        return False
        except RestartNeededError:
            query.stop()
            raise
        log.info("stopping after the current batch")
        self._drain(query)
        self.jvm.quiet()
        query.stop()
        return True

    def _look_for_gaps(self, spark: SparkSession, progress: Any) -> None:
        self.gaps.progressed(progress)
        gaps = self.gaps.open()
        if gaps != self._kept_gaps:
            keep_gaps(spark, self.settings.streaming.checkpoint, gaps)
            self._kept_gaps = gaps

    def _drain(self, query: StreamingQuery) -> None:
        deadline = time.monotonic() + DRAIN_S
        last = _batch(query)
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            if _batch(query) != last:
                break
            time.sleep(0.02)

    def _is_to_end(self) -> bool:
        # A signal to the process group also ends the JVM and Python workers, so a failure may be part of the stop.
        if not self.stop.wait(1 if self.jvm.gone() is not None else 0):
            return False
        self.jvm.quiet()
        return True

    def _recovers(self, error: BaseException) -> bool:
        """Wait for the pause before a restart; False if flinkwatch should stop. Raises JobError at the limit."""
        trouble = self._trouble(error)
        pause = self._restarts.pause(trouble.limit)
        if pause is None:
            times = self._restarts.count if trouble.limit != NEVER else 0
            tried = f". {times} restarts within the last hour did not help" if times else ""
            raise JobError(f"{trouble.line}{tried}") from error
        if trouble.memory:
            self._limit.lower()
        self.health.failed(trouble.line)
        self.telemetry.restarted()
        log.warning("the query failed and is being restarted", reason=trouble.line, in_s=pause)
        return not self.stop.wait(pause)

    def _trouble(self, error: BaseException) -> QueryTrouble:
        if gone := self.jvm.gone(_GONE_WITHIN_S if isinstance(error, Py4JError | OSError) else 0):
            return QueryTrouble(gone, PASSES, memory="memory" in gone)
        return explained(error, self.settings.streaming.checkpoint)


def explained(error: BaseException, checkpoint: str) -> QueryTrouble:
    """The trouble behind an error, with the damaged file of the checkpoint if there is one."""
    if isinstance(error, PreflightError):
        return QueryTrouble(str(error), NEVER if isinstance(error, TopicMissingError) else PASSES)
    if isinstance(error, RestartNeededError):
        return QueryTrouble(str(error), PASSES)
    log.debug("spark", error=cause_of(error))
    trouble = trouble_of(error, checkpoint)
    # Trouble that passes has another cause, even if there is a damaged file, which may not be needed.
    if trouble.limit in {NEVER, UNKNOWN} and (damage := damage_in(checkpoint)):
        return QueryTrouble(damage, NEVER)
    if trouble.line.startswith(NO_SPACE) and (room := room_left(checkpoint, tempfile.gettempdir())):
        return trouble._replace(line=f"{trouble.line}; {room}")
    return trouble


class _FirstBatch:
    """Logs from time to time that the first batch is not finished yet, and finally that it is."""

    def __init__(self) -> None:
        self._begun = self._reported_at = time.monotonic()
        self._finished = False

    def look(self, finished: bool) -> None:
        now = time.monotonic()
        after_s = round(now - self._begun)
        if finished and not self._finished:
            log.info("the first batch is finished", after_s=after_s)
        elif not finished and now - self._reported_at >= _REPORT_SLOW_EVERY_S:
            self._reported_at = now
            waits = "the first batch is not finished yet, Spark is starting its Python workers"
            log.warning(waits, after_s=after_s, load=round(os.getloadavg()[0], 1), cores=os.cpu_count())
        self._finished = finished


def _read(progress: Any) -> int:
    """The number of offsets that a batch has read."""
    source = progress["sources"][0]
    return between(parsed(source["startOffset"]), parsed(source["endOffset"]))


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return progress["batchId"] if progress is not None else -1
