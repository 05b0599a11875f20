"""The Spark session: which Java, which jars, which properties, and why."""

import os
import socket
import sys
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.errors import PreflightError
from streaming.jars import spark_jars
from streaming.java import find_java
from streaming.program import program
from streaming.settings import Streaming
from streaming.spark_errors import cause_of

_LOG_SETTINGS = Path(__file__).resolve().parents[1] / "conf" / "log4j2.properties"

_JAVA_OPTIONS = (
    f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    # The driver's heap is small: measured under load, the JVM takes 370 MB less than with G1 and many malloc arenas, in
    # the same CPU time.
    "-XX:+UseSerialGC",
)

_KNOCK_S = 3.0
_STATE = "spark.sql.streaming.stateStore."

PROPERTIES: dict[str, str] = {
    # transformWithState runs on RocksDB only; the changelog spares a snapshot upload at each commit
    _STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    _STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    # unique ids per attempt: a task that was thought dead cannot overwrite state
    _STATE + "checkpointFormatVersion": "2",
    # RocksDB's memory is unbounded per instance otherwise
    _STATE + "rocksdb.boundedMemoryUsage": "true",
    _STATE + "rocksdb.maxMemoryUsageMB": "128",
    _STATE + "rocksdb.trackTotalNumberOfRows": "false",
    # measured: a quarter less wall time where the state stage talks to Python
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # ten thousand lines of 400 kB would be one batch of 4 GB, held by the JVM and by Python
    "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
    "spark.sql.adaptive.enabled": "false",
    # Spark's own default, and the two options of the Kafka client that hold a password or a key
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key",
    "spark.sql.session.timeZone": "UTC",
    # the classic leak of small-batch queries is the history kept for the UI
    "spark.ui.enabled": "false",
    # for those who switch it on: whoever can read the page must not end the job
    "spark.ui.killEnabled": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "25",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "20",
}

# Spark's own choice asks Hadoop for links, and Hadoop without its native library starts `readlink` for each answer:
# some twenty processes a batch. Measured on an idle job: a commit of state 190 ms with it, 2 ms without.
_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def start_session(settings: Streaming) -> SparkSession:
    """The session of the job.

    Raises JavaNotFoundError or JarsNotFoundError when bin/setup has not run, PreflightError when Spark does not start.
    """
    _await_master(settings.master)
    os.environ["JAVA_HOME"] = str(find_java())
    # Workers would otherwise run whatever `python3` is on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = settings.master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # glibc gives every thread of the JVM memory of its own otherwise, and takes little of it back.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    builder = (
        SparkSession.builder.appName("flinkwatch")
        .master(settings.master)
        .config("spark.jars", ",".join(str(jar) for jar in spark_jars()))
        .config("spark.driver.memory", settings.driver_memory)
        .config("spark.driver.extraJavaOptions", " ".join(_JAVA_OPTIONS))
        .config("spark.sql.shuffle.partitions", str(settings.shuffle_partitions))
    )
    for name, value in _properties(settings).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise PreflightError(
            f"Spark does not start on {settings.master} (streaming.master): {cause_of(error)}"
        ) from error
    if not local:
        # Executors run the program of this driver, whatever of it they have themselves.
        session.sparkContext.addPyFile(str(program()))
    return session


def _await_master(master: str) -> None:
    """Spark itself tries for a minute, and then says that its context was stopped."""
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
    # Renaming over a file that is there is sure on a local disk only.
    scheme = settings.checkpoint.partition(":")[0] if ":" in settings.checkpoint else ""
    local = scheme == "file" or (not scheme and settings.master.startswith("local"))
    return {**PROPERTIES, **(_LOCAL_CHECKPOINT if local else {}), **settings.spark}
