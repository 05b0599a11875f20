"""`flinkwatch run`: preflight, delivery, session, query, and an orderly end.

SIGTERM and SIGINT let the batch at hand finish, then stop the query, then delivery; a failed query ends the process
with its cause in one line.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import structlog
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from detectors.settings import Published
from streaming.app import start_query
from streaming.brokers import Stopped, await_brokers
from streaming.configuration.in_force import InForce
from streaming.configuration.matched import Unmatched, matched_by
from streaming.configuration.published import ConfigTopic
from streaming.configuration.reload import ConfigFile, FileWatch, fixed_of, publish_file
from streaming.errors import JobError
from streaming.gaps import Gaps
from streaming.known_issues import shipped
from streaming.layout import check_layout
from streaming.not_understood import NotUnderstood
from streaming.preflight import check_topics, starting_offsets
from streaming.pulse import Pulse
from streaming.serving import Health, listen
from streaming.session import start_session
from streaming.settings import Settings
from streaming.spark_errors import cause_of
from streaming.stop import Stop
from streaming.telemetry import Telemetry

log = structlog.get_logger()

_POLL_S = 0.5
_DRAIN_S = 30.0
_START_ATTEMPTS = 3


Offsets = dict[str, dict[str, int]]


def run(settings: Settings, deliver: bool, by: str, stop: Stop, file: Path | None = None) -> None:
    """Run until `stop`; `file` holds the settings and is read again when it changes.

    Raises PreflightError or PublishedError when it cannot start, JobError when it has failed.
    """
    health = Health(settings.streaming.trigger)
    with ExitStack() as exits:
        page, delivery = listen(settings, deliver, health, exits)
        topic, fixed = ConfigTopic(settings.kafka.access, settings.kafka.topics.config), fixed_of(file)

        def ask() -> tuple[Offsets, Published]:
            await_brokers(settings, stop, health.waiting)
            return _preflight(settings, lambda: publish_file(topic, settings.live, fixed, by))

        try:
            spark, offsets, published = _prepare(settings, ask, exits)
        except Stopped:
            log.info("stopped before Kafka was there")
            return
        health.started()
        telemetry = Telemetry(published.hash, settings.streaming.trigger)
        page.registry.register(telemetry)
        if delivery is not None:
            exits.callback(delivery.stop)
            delivery.start()
        pulse = Pulse(
            settings.kafka.access, settings.kafka.topics.pulse, settings.streaming.trigger, settings.streaming.canary
        )
        exits.callback(pulse.stop)
        gaps = Gaps(settings.kafka.access, (*settings.kafka.logs, *settings.kafka.metrics), pulse.tell)
        exits.callback(gaps.stop)
        gaps.start()
        not_understood = NotUnderstood(settings.kafka.access, settings.kafka.topics.readings)
        exits.callback(not_understood.stop)
        not_understood.start()
        query = _start(spark, settings, offsets)
        unmatched = Unmatched(partial(matched_by, settings.kafka.access, settings.kafka.topics.readings))
        in_force = InForce(topic, published, telemetry.configured, unmatched)
        exits.callback(in_force.stop)
        in_force.start()
        if file is not None:
            watched = FileWatch(ConfigFile(file, topic, fixed, by), telemetry.reloaded)
            exits.callback(watched.stop)
            watched.start()
        if settings.streaming.pulse:
            pulse.start()
        topics = [*settings.kafka.logs, *settings.kafka.metrics]
        log.info("watching", topics=topics, checkpoint=settings.streaming.checkpoint)
        _follow(query, health, gaps, telemetry, stop)


def _prepare(
    settings: Settings, ask: Callable[[], tuple[Offsets, Published]], exits: ExitStack
) -> tuple[SparkSession, Offsets, Published]:
    """The session, where to begin reading, and the configuration in force. The brokers are asked while the JVM starts:
    both take seconds.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="preflight") as aside:
        preflight = aside.submit(ask)
        spark = start_session(settings.streaming)
        exits.callback(_quietly, spark.stop)
        offsets, published = preflight.result()
    check_layout(spark, settings)
    return spark, offsets, published


def _preflight(settings: Settings, publishes: Callable[[], Published]) -> tuple[Offsets, Published]:
    shipped()
    partitions = check_topics(settings)
    published = publishes()
    log.info("configuration in force", hash=published.hash, published_by=published.by)
    return starting_offsets(settings, partitions), published


def _start(spark: SparkSession, settings: Settings, offsets: Offsets) -> StreamingQuery:
    """The first Python worker has 10 s to start, hard-coded in Spark: a busy machine needs more than one try."""
    for attempt in range(1, _START_ATTEMPTS + 1):
        try:
            return start_query(spark, settings, offsets)
        except (PySparkException, Py4JError) as error:
            if attempt == _START_ATTEMPTS:
                raise JobError(cause_of(error)) from error
            log.warning("query did not start, trying again", attempt=attempt, error=cause_of(error))
    raise AssertionError("unreachable")


def _follow(query: StreamingQuery, health: Health, gaps: Gaps, telemetry: Telemetry, stop: Stop) -> None:
    try:
        while not stop.wait(_POLL_S):
            if not query.isActive:
                raise JobError(cause_of(query.exception()))
            progress = query.lastProgress
            if progress is not None:
                health.finished(progress["batchId"])
                gaps.progressed(progress)
                telemetry.progressed(progress, lambda: query.recentProgress)
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


def _quietly(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - the JVM may be gone already, and everything is stored
        log.debug("session did not stop in order", error=str(error))
