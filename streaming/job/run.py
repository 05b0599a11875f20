"""`flinkwatch run`: preflight, delivery, session, query, and an orderly shutdown.

SIGTERM and SIGINT let the current batch finish, then stop the query, then delivery. If the query fails for good, the
process ends with the cause in one line.
"""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import structlog

from detectors.settings.live import PublishedConfiguration
from sinks.delivery.service import Delivery
from sinks.prometheus.http_server import StatusServer
from streaming.configuration.file_watch import ConfigFile, FileWatch, publish_file
from streaming.configuration.follower import ConfigFollower
from streaming.configuration.known_issues import read_files
from streaming.configuration.settings import Settings
from streaming.configuration.topic import ConfigTopic
from streaming.errors import PreflightError, PublishedError
from streaming.job.checkpoint.files import local_path
from streaming.job.checkpoint.guard import check_layout
from streaming.job.checkpoint.lock import CheckpointLock
from streaming.job.checkpoint.offsets import Offsets
from streaming.job.checkpoint.topic_ids import correct_offsets
from streaming.job.data_loss import DataLossWatch
from streaming.job.deliver import watch_file
from streaming.job.followers.forget_incidents import ForgetIncidents
from streaming.job.followers.shared_resources import SharedResources
from streaming.job.followers.topic_follower import TopicFollower
from streaming.job.followers.warn_not_understood import NotUnderstood
from streaming.job.health import Health, listen
from streaming.job.heartbeat import HeartbeatWriter
from streaming.job.preflight import check_topics, starting_offsets
from streaming.job.query import input_topics
from streaming.job.spark.jvm import Jvm
from streaming.job.spark.session import start_session_while
from streaming.job.supervisor import QuerySupervisor
from streaming.job.telemetry import Telemetry
from streaming.job.wait_for_brokers import await_brokers
from streaming.logs import keep_one_form
from streaming.threads import Background, Stop, Stopped

log = structlog.get_logger()

# After a process was killed, its JVM still runs for a moment.
_LOCK_WITHIN_S = 20.0


def run(settings: Settings, deliver: bool, by: str, stop: Stop, file: Path | None = None) -> None:
    """Run until `stop`. `file` contains the settings and is reloaded when it changes.

    Raises PreflightError or PublishedError if the job cannot start, JobError if it fails.
    """
    keep_one_form()
    health = Health(settings.streaming.trigger)
    with ExitStack() as exits:
        page, delivery = listen(settings, deliver, health, exits)
        topic = ConfigTopic(settings.kafka.access, settings.kafka.topics.config)
        try:
            jvm = _new_jvm(settings, stop, health, exits)
            log.info("starting Spark", master=settings.streaming.master)
            # Kafka is asked while the JVM starts, since both take seconds.
            ask = partial(_prepare, settings, topic, by, stop, health)
            spark, (offsets, published) = start_session_while(ask, settings.streaming, jvm, stop)
            check_layout(spark, settings)
            began_again = correct_offsets(spark, settings)
        except Stopped:
            log.info("stopped during the start")
            return
        health.started()
        telemetry = Telemetry(published.hash, settings.streaming.trigger)
        page.registry.register(telemetry)
        if delivery is not None:
            exits.callback(delivery.stop)
            delivery.start()
        in_force = ConfigFollower(topic, published, telemetry.configured)
        watched = None if file is None else _watch(file, topic, settings, by, delivery, page)
        heartbeat = _new_heartbeat(settings)
        gaps = _new_gaps(settings, heartbeat, began_again)
        _start(exits, gaps, *_new_followers(settings, heartbeat))

        def begun() -> None:
            _start(exits, in_force, watched, heartbeat if settings.streaming.heartbeat else None)
            topics = [*settings.kafka.logs, *settings.kafka.metrics]
            log.info("the job is running", topics=topics, checkpoint=settings.streaming.checkpoint)

        ask_again = partial(_prepare_again, settings, in_force, stop, health)
        try:
            QuerySupervisor(settings, jvm, stop, health, gaps, telemetry, ask_again).run(spark, offsets, begun)
        except Stopped:
            log.info("stopped while the query was restarting")


def _watch(
    file: Path, topic: ConfigTopic, settings: Settings, by: str, delivery: Delivery | None, page: StatusServer
) -> FileWatch:
    prepare = None if delivery is None else delivery.prepare
    return watch_file(ConfigFile(file, topic, settings, by, prepare), page)


def _new_jvm(settings: Settings, stop: Stop, health: Health, exits: ExitStack) -> Jvm:
    """Lock a local checkpoint and return the JVM, not started, that will inherit the lock.

    Raises PreflightError, Stopped.
    """
    folder = local_path(settings.streaming.checkpoint)
    descriptors: tuple[int, ...] = ()
    if folder is not None:
        health.waiting("the previous job on this checkpoint has not ended yet")
        lock = exits.enter_context(CheckpointLock(folder).held(_LOCK_WITHIN_S, stop))
        health.started()
        descriptors = () if lock.descriptor is None else (lock.descriptor,)
    jvm = Jvm(stop, descriptors)
    exits.callback(jvm.end)
    return jvm


def _new_heartbeat(settings: Settings) -> HeartbeatWriter:
    times = settings.streaming.trigger, settings.streaming.canary
    return HeartbeatWriter(settings.kafka.access, settings.kafka.topics.heartbeat, *times)


def _new_gaps(settings: Settings, heartbeat: HeartbeatWriter, began_again: list[str]) -> DataLossWatch:
    topics = (*settings.kafka.logs, *settings.kafka.metrics)
    return DataLossWatch(settings.kafka.access, topics, heartbeat.publish_line, input_topics(settings), began_again)


def _new_followers(settings: Settings, heartbeat: HeartbeatWriter) -> tuple[TopicFollower, ...]:
    access, topics = settings.kafka.access, settings.kafka.topics
    return (
        NotUnderstood(access, topics.readings),
        SharedResources(access, topics.incidents, heartbeat.publish_line),
        ForgetIncidents(access, topics.incidents),
    )


def _start(exits: ExitStack, *threads: Background | None) -> None:
    for thread in filter(None, threads):
        exits.callback(thread.stop)
        thread.start()


def _prepare(
    settings: Settings, topic: ConfigTopic, by: str, stop: Stop, health: Health
) -> tuple[Offsets, PublishedConfiguration]:
    """The starting offsets and the configuration in force, once the brokers answer."""
    await_brokers(settings, stop, health.waiting)
    read_files(settings.known_issues.files)
    partitions = check_topics(settings)
    published = publish_file(topic, settings.live, by)
    log.info("configuration is in force", hash=published.hash, published_by=published.by)
    return starting_offsets(settings, partitions), published


def _prepare_again(settings: Settings, in_force: ConfigFollower, stop: Stop, health: Health) -> Offsets:
    """The starting offsets of a restarted query. Meanwhile an empty broker may have replaced the previous one."""
    await_brokers(settings, stop, health.waiting)
    partitions = check_topics(settings)
    try:
        in_force.publish_lost()
    except PublishedError as error:
        raise PreflightError(str(error)) from error
    return starting_offsets(settings, partitions)
