"""Starts the Spark session: which Java, which jars, which properties, and why."""

import os
import re
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.configuration.settings import Streaming
from streaming.errors import PreflightError
from streaming.job.spark import class_archive
from streaming.job.spark.code_archive import program
from streaming.job.spark.jvm import Jvm
from streaming.job.spark.troubles import cause_of
from streaming.logs import logs_json
from streaming.setup.jars import jars_of
from streaming.setup.java import find_java
from streaming.threads import Stop

Answer = TypeVar("Answer")

_POLL_S = 0.2
_LOG_SETTINGS = Path(__file__).resolve().parents[3] / "conf" / "log4j2.properties"

_JAVA_OPTIONS = (
    # The driver's heap is small: measured under load, the JVM takes 370 MB less than with G1 and many malloc arenas, in
    # the same CPU time.
    "-XX:+UseSerialGC",
    # A JVM that runs out of memory would continue without some of its threads; one that exits is restarted.
    "-XX:+ExitOnOutOfMemoryError",
)

_KNOCK_S = 3.0
_ONE_HOST = re.compile(r"local(?:\[(\*|\d+)\])?")
_ATTEMPTS = 4
_STATE = "spark.sql.streaming.stateStore."

PROPERTIES: dict[str, str] = {
    # transformWithState needs RocksDB; with a changelog, a commit needs no snapshot upload
    _STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    _STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    # unique ids per attempt, so that a task that was considered dead cannot overwrite state
    _STATE + "checkpointFormatVersion": "2",
    # RocksDB's memory is unbounded per instance otherwise
    _STATE + "rocksdb.boundedMemoryUsage": "true",
    _STATE + "rocksdb.maxMemoryUsageMB": "128",
    _STATE + "rocksdb.trackTotalNumberOfRows": "false",
    # a worker on a busy host may wait longer than 15 s for its next message
    "spark.python.authenticate.socketTimeout": "10m",
    # measured: a quarter less wall time where the state stage talks to Python
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # ten thousand lines of 400 kB would be a batch of 4 GB, in the JVM and in Python
    "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
    "spark.sql.adaptive.enabled": "false",
    # Spark's own default, and the two options of the Kafka client that hold a password or a key
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key",
    "spark.sql.session.timeZone": "UTC",
    # the history kept for the UI is the usual memory leak of queries with small batches
    "spark.ui.enabled": "false",
    # if someone enables the UI, its readers must not be able to kill the job
    "spark.ui.killEnabled": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "25",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "20",
}

# Spark's default asks Hadoop for links, and Hadoop without its native library starts a `readlink` process for each,
# about twenty per batch. Measured on an idle job: 190 ms for a commit of state with the default, 2 ms without.
_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}


# The only executor runs in the driver's process. Spark compares times of day, so if the host's clock is set ahead, it
# considers the executor dead, forgets its blocks, and does not let it register again.
_NEVER_DEAD = {"spark.storage.blockManagerHeartbeatTimeoutMs": "315360000s"}


def start_session(settings: Streaming, jvm: Jvm | None = None, java_options: tuple[str, ...] = ()) -> SparkSession:
    """Start the session of the job in a new JVM, with more `java_options` than its own.

    Raises JavaNotFoundError or JarsNotFoundError if bin/setup has not run, PreflightError if Spark does not start,
    Stopped if flinkwatch is asked to stop meanwhile.
    """
    _await_master(settings.master)
    os.environ["JAVA_HOME"] = str(find_java())
    # Workers would otherwise run whatever `python3` is on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = settings.master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Otherwise glibc gives every thread of the JVM its own memory arena and returns little of it.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    conf = {
        "spark.app.name": "flinkwatch",
        "spark.master": _master(settings.master),
        "spark.jars": ",".join(str(jar) for jar in jars_of("spark")),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": " ".join((*_java_options(), *java_options)),
        # Only classes from the class path are archived.
        **({"spark.driver.extraClassPath": os.pathsep.join(map(str, jars_of("spark")))} if local else {}),
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        **(_NEVER_DEAD if _ONE_HOST.fullmatch(settings.master) else {}),
        **_properties(settings),
    }
    try:
        gateway = (jvm or Jvm()).start(conf)
        SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(conf.items())), gateway=gateway)
        session = SparkSession.builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise PreflightError(
            f"Spark could not be started on {settings.master} (streaming.master): {cause_of(error)}"
        ) from error
    if jvm is not None:
        jvm.session = session
    if not local:
        # Executors must run the code of this driver, even if they have another version.
        session.sparkContext.addPyFile(str(program()))
    return session


def start_session_while(
    meanwhile: Callable[[], Answer], settings: Streaming, jvm: Jvm, stop: Stop
) -> tuple[SparkSession, Answer]:
    """Start the session and call `meanwhile` at the same time; return both results.

    Raises Stopped on `stop`, and the errors of both. The session is created in another thread, because pyspark takes
    over Ctrl-C in the main thread.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="session") as aside:
        session = aside.submit(start_session, settings, jvm)
        try:
            answer = meanwhile()
            while not session.done():
                stop.pause(_POLL_S)
            stop.pause(0)
            return session.result(), answer
        except BaseException:
            jvm.kill()
            raise


def _master(master: str) -> str:
    """The master with four attempts for a task: on a single host Spark tries once, but a worker may be killed."""
    found = _ONE_HOST.fullmatch(master)
    return f"local[{found[1] or 1},{_ATTEMPTS}]" if found else master


def _java_options() -> tuple[str, ...]:
    settings = _LOG_SETTINGS.with_name("log4j2-json.properties") if logs_json() else _LOG_SETTINGS
    return (f"-Dlog4j2.configurationFile={settings.as_uri()}", *_JAVA_OPTIONS, *class_archive.using())


def _await_master(master: str) -> None:
    """Check that a standalone master answers. Spark itself tries for a minute and reports only a stopped context."""
    if not master.startswith("spark://"):
        return
    problem = ""
    for address in master.removeprefix("spark://").split(","):
        host, port = address.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()
        except OSError as error:
            problem = f"{address}: {error.strerror or error}"
        else:
            return
    raise PreflightError(f"no Spark master answers (streaming.master): {problem}")


def _properties(settings: Streaming) -> dict[str, str]:
    # Renaming over an existing file is reliable only on a local disk.
    scheme = settings.checkpoint.partition(":")[0] if ":" in settings.checkpoint else ""
    local = scheme == "file" or (not scheme and settings.master.startswith("local"))
    return {**PROPERTIES, **(_LOCAL_CHECKPOINT if local else {}), **settings.spark}
