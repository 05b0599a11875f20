"""`flinkwatch run`: preflight, delivery, session, query, and an orderly end.

SIGTERM and SIGINT let the batch at hand finish, then stop the query, then delivery; a failed query ends the process
with its cause in one line.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import structlog
from pyspark.sql import SparkSession

from detectors.settings.live import PublishedConfiguration
from streaming.configuration.file_watch import ConfigFile, FileWatch, publish_file
from streaming.configuration.follower import ConfigFollower
from streaming.configuration.known_issues import shipped
from streaming.configuration.settings import Settings
from streaming.configuration.topic import ConfigTopic
from streaming.errors import PreflightError, PublishedError
from streaming.job.checkpoint.files import local_path
from streaming.job.checkpoint.guard import check_layout
from streaming.job.checkpoint.lock import CheckpointLock
from streaming.job.checkpoint.offsets import Offsets
from streaming.job.checkpoint.recreated import read_recreated_from_their_beginning
from streaming.job.data_loss import DataLossWatch
from streaming.job.health import Health, listen
from streaming.job.heartbeat import HeartbeatWriter
from streaming.job.not_understood import NotUnderstood
from streaming.job.preflight import check_topics, starting_offsets
from streaming.job.query import input_topics
from streaming.job.running import QuerySupervisor
from streaming.job.spark.jvm import Jvm
from streaming.job.spark.session import start_session_while
from streaming.job.telemetry import Telemetry
from streaming.job.wait_for_brokers import Stopped, await_brokers
from streaming.logs import keep_one_form
from streaming.shutdown import Stop

log = structlog.get_logger()

# A process that was killed leaves its JVM behind for a moment.
_LOCK_WITHIN_S = 20.0


def run(settings: Settings, deliver: bool, by: str, stop: Stop, file: Path | None = None) -> None:
    """Run until `stop`; `file` holds the settings and is read again when it changes.

    Raises PreflightError or PublishedError when it cannot start, JobError when it has failed.
    """
    keep_one_form()
    health = Health(settings.streaming.trigger)
    with ExitStack() as exits:
        page, delivery = listen(settings, deliver, health, exits)
        topic = ConfigTopic(settings.kafka.access, settings.kafka.topics.config)

        def ask() -> tuple[Offsets, PublishedConfiguration]:
            await_brokers(settings, stop, health.waiting)
            return _preflight(settings, lambda: publish_file(topic, settings.live, by))

        try:
            jvm = _new_jvm(settings, stop, health, exits)
            spark, offsets, published = _prepare(settings, ask, jvm, stop)
            began_again = read_recreated_from_their_beginning(spark, settings)
        except Stopped:
            log.info("stopped while starting")
            return
        health.started()
        telemetry = Telemetry(published.hash, settings.streaming.trigger)
        page.registry.register(telemetry)
        if delivery is not None:
            exits.callback(delivery.stop)
            delivery.start()
        heartbeat = HeartbeatWriter(
            settings.kafka.access,
            settings.kafka.topics.heartbeat,
            settings.streaming.trigger,
            settings.streaming.canary,
        )
        exits.callback(heartbeat.stop)
        topics = (*settings.kafka.logs, *settings.kafka.metrics)
        gaps = DataLossWatch(settings.kafka.access, topics, heartbeat.tell, input_topics(settings), began_again)
        exits.callback(gaps.stop)
        gaps.start()
        not_understood = NotUnderstood(settings.kafka.access, settings.kafka.topics.readings)
        exits.callback(not_understood.stop)
        not_understood.start()
        in_force = ConfigFollower(topic, published, telemetry.configured)
        exits.callback(in_force.stop)

        def begun() -> None:
            in_force.start()
            if file is not None:
                watched = FileWatch(ConfigFile(file, topic, settings, by), telemetry.reloaded)
                exits.callback(watched.stop)
                watched.start()
            if settings.streaming.heartbeat:
                heartbeat.start()
            log.info("watching", topics=list(topics), checkpoint=settings.streaming.checkpoint)

        def ask_again() -> Offsets:
            await_brokers(settings, stop, health.waiting)
            return _where_to_begin(settings, in_force)

        running = QuerySupervisor(settings, jvm, stop, health, gaps, telemetry, ask_again)
        try:
            running.run(spark, offsets, begun)
        except Stopped:
            log.info("stopped while the query was started again")


def _new_jvm(settings: Settings, stop: Stop, health: Health, exits: ExitStack) -> Jvm:
    """The JVM that is to be, which holds the lock on a checkpoint of this host. Raises PreflightError, Stopped."""
    folder = local_path(settings.streaming.checkpoint)
    descriptors: tuple[int, ...] = ()
    if folder is not None:
        health.waiting("the job before on this checkpoint has not ended yet")
        lock = exits.enter_context(CheckpointLock(folder).held(_LOCK_WITHIN_S, stop))
        health.started()
        descriptors = () if lock.descriptor is None else (lock.descriptor,)
    jvm = Jvm(stop, descriptors)
    exits.callback(jvm.end)
    return jvm


def _prepare(
    settings: Settings, ask: Callable[[], tuple[Offsets, PublishedConfiguration]], jvm: Jvm, stop: Stop
) -> tuple[SparkSession, Offsets, PublishedConfiguration]:
    """The session, where to begin reading, and the configuration in force. The brokers are asked while the JVM starts:
    both take seconds.
    """
    log.info("starting Spark", master=settings.streaming.master)
    spark, (offsets, published) = start_session_while(ask, settings.streaming, jvm, stop)
    check_layout(spark, settings)
    return spark, offsets, published


def _where_to_begin(settings: Settings, in_force: ConfigFollower) -> Offsets:
    """Of a query that is started again: an empty broker may have taken the place of the last one meanwhile."""
    partitions = check_topics(settings)
    try:
        in_force.publish_lost()
    except PublishedError as error:
        raise PreflightError(str(error)) from error
    return starting_offsets(settings, partitions)


def _preflight(
    settings: Settings, publishes: Callable[[], PublishedConfiguration]
) -> tuple[Offsets, PublishedConfiguration]:
    shipped()
    partitions = check_topics(settings)
    published = publishes()
    log.info("configuration in force", hash=published.hash, published_by=published.by)
    return starting_offsets(settings, partitions), published
