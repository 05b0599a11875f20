"""`flinkwatch run`: preflight, delivery, session, query, and an orderly end.

SIGTERM and SIGINT let the batch at hand finish, then stop the query, then delivery; a failed query ends the process
with
its cause in one line.
"""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgspec
import structlog
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from detectors.engine import STATE_VERSION
from sinks.delivery import Delivery
from streaming.app import start_query
from streaming.errors import JobError, PreflightError
from streaming.gaps import Gaps
from streaming.known_issues import shipped
from streaming.preflight import check_topics, publish_settings, starting_offsets
from streaming.pulse import Pulse
from streaming.session import start_session
from streaming.settings import Settings
from streaming.stop import Stop

log = structlog.get_logger()

_POLL_S = 0.5
_DRAIN_S = 30.0
_START_ATTEMPTS = 3


Offsets = dict[str, dict[str, int]]


class Health:
    """Whether batches still finish; `problem` is what readiness says of it."""

    def __init__(self, trigger_ms: int) -> None:
        self._patience = max(60.0, 10 * trigger_ms / 1000)
        self._batch = -1
        self._finished_at: float | None = None

    def finished(self, batch: int) -> None:
        """A batch has finished."""
        if batch != self._batch:
            self._batch, self._finished_at = batch, time.monotonic()

    def problem(self) -> str | None:
        """Why the job is not ready, or None."""
        if self._finished_at is None:
            return "no batch has finished yet"
        age = time.monotonic() - self._finished_at
        return f"the last batch finished {age:.0f} s ago" if age > self._patience else None


def run(settings: Settings, deliver: bool, by: str, stop: Stop) -> None:
    """Run until `stop`. Raises PreflightError when it cannot start, JobError when it has failed."""
    health = Health(settings.streaming.trigger)
    with ExitStack() as exits:
        spark, offsets = _prepare(settings, by, exits)
        if deliver:
            _deliver(settings, health, exits)
        pulse = Pulse(settings.kafka.access, settings.kafka.topics.pulse, settings.streaming.trigger)
        exits.callback(pulse.stop)
        gaps = Gaps(settings.kafka.access, (*settings.kafka.logs, *settings.kafka.metrics), pulse.tell)
        exits.callback(gaps.stop)
        gaps.start()
        query = _start(spark, settings, offsets)
        if settings.streaming.pulse:
            pulse.start()
        topics = [*settings.kafka.logs, *settings.kafka.metrics]
        log.info("watching", topics=topics, checkpoint=settings.streaming.checkpoint)
        _follow(query, health, gaps, stop)


def _prepare(settings: Settings, by: str, exits: ExitStack) -> tuple[SparkSession, Offsets]:
    """The session, and where to begin reading. The brokers are asked while the JVM starts: both take seconds."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="preflight") as aside:
        preflight = aside.submit(_preflight, settings, by)
        spark = start_session(settings.streaming)
        exits.callback(_quietly, spark.stop)
        offsets = preflight.result()
    _check_layout(spark, settings)
    return spark, offsets


def _preflight(settings: Settings, by: str) -> Offsets:
    shipped()
    partitions = check_topics(settings)
    published = publish_settings(settings, by)
    log.info("configuration in force", hash=published.hash, published_by=published.by)
    return starting_offsets(settings, partitions)


def _deliver(settings: Settings, health: Health, exits: ExitStack) -> None:
    sinks = settings.sinks
    delivery = Delivery(settings.kafka.access, settings.kafka.topics, sinks.slack, sinks.prometheus)
    delivery.page.add_readiness_check("query", health.problem)
    try:
        delivery.start()
    except OSError as error:
        place = f"{sinks.prometheus.address}:{sinks.prometheus.port}"
        raise PreflightError(f"sinks.prometheus: cannot listen on {place}: {error}") from error
    exits.callback(delivery.stop)


def _start(spark: SparkSession, settings: Settings, offsets: Offsets) -> StreamingQuery:
    """The first Python worker has 10 s to start, hard-coded in Spark: a busy machine needs more than one try."""
    for attempt in range(1, _START_ATTEMPTS + 1):
        try:
            return start_query(spark, settings, offsets)
        except (PySparkException, Py4JError) as error:
            if attempt == _START_ATTEMPTS:
                raise JobError(_cause(error)) from error
            log.warning("query did not start, trying again", attempt=attempt, error=_cause(error))
    raise AssertionError("unreachable")


def _follow(query: StreamingQuery, health: Health, gaps: Gaps, stop: Stop) -> None:
    try:
        while not stop.wait(_POLL_S):
            if not query.isActive:
                raise JobError(_cause(query.exception()))
            progress = query.lastProgress
            if progress is not None:
                health.finished(progress["batchId"])
                gaps.progressed(progress)
        log.info("stopping, the batch at hand may finish")
        _drain(query)
    except Py4JNetworkError as error:
        # A signal to the whole process group ends the JVM as well: then there is nothing left to stop.
        if not stop.wait(1):
            raise JobError("the JVM has gone") from error


def _drain(query: StreamingQuery) -> None:
    deadline = time.monotonic() + _DRAIN_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.02)
    query.stop()


def _check_layout(spark: SparkSession, settings: Settings) -> None:
    """Buckets and partitions are fixed by the checkpoint: state would be looked for where it is not."""
    wanted = {
        "buckets": settings.streaming.buckets,
        "shuffle_partitions": settings.streaming.shuffle_partitions,
        "state_version": STATE_VERSION,
    }
    jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no public way to Hadoop's file systems
    path = jvm.org.apache.hadoop.fs.Path(settings.streaming.checkpoint, "flinkwatch.json")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if not files.exists(path):
        file = files.create(path, True)
        file.write(bytearray(msgspec.json.encode(wanted)))
        file.close()
        return
    stream = files.open(path)
    found = msgspec.json.decode(bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream)))
    stream.close()
    different = [f"{k} is {wanted[k]}, the checkpoint has {found.get(k)}" for k in wanted if found.get(k) != wanted[k]]
    if different:
        raise PreflightError(
            f"{settings.streaming.checkpoint} was made with other settings: {'; '.join(different)}. They "
            f"are fixed at the first start: "
            "set them back, or name a new streaming.checkpoint (history and open incidents start anew)."
        )


def _cause(error: BaseException | None) -> str:
    """The deepest reason in one line."""
    text = str(error) if error is not None else "the query ended"
    causes = re.findall(r"(?:Caused by: |^)([\w.$]+(?:Error|Exception)[^\n]*)", text, re.MULTILINE)
    line = causes[-1] if causes else next((x for x in text.splitlines() if x.strip()), text)
    return line.strip()[:500]


def _quietly(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - the JVM may be gone already, and everything is stored
        log.debug("session did not stop in order", error=str(error))
