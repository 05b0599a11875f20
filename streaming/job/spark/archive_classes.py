"""Makes the archive of the classes that Spark loads: `python -m streaming.job.spark.archive_classes`.

bin/setup runs it.
"""

import tempfile
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from streaming.configuration.settings import Streaming
from streaming.errors import PreflightError
from streaming.job.spark import class_archive
from streaming.job.spark.jvm import Jvm
from streaming.job.spark.session import start_session

_QUERY_WITHIN_S = 300
_EXIT_WITHIN_S = 300.0


def make() -> None:
    """Run a query as the job does, and write the classes that it has loaded to the archive.

    Raises PreflightError if Spark does not start or writes no archive.
    """
    made = class_archive.ARCHIVE.with_suffix(".new")
    for old in (class_archive.ARCHIVE, made):
        old.unlink(missing_ok=True)
    jvm = Jvm()
    run_a_query(start_session(Streaming(), jvm, java_options=class_archive.writing(made)))
    jvm.end(_EXIT_WITHIN_S)
    if not made.exists():
        raise PreflightError(f"Spark's JVM wrote no archive of its classes to {made}")
    made.rename(class_archive.ARCHIVE)


def run_a_query(session: SparkSession) -> None:
    """Read, repartition, keep state and write one batch; load Kafka's source as far as it goes alone."""
    session.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t").load()
    rows = session.readStream.format("rate").load().selectExpr("value % 2 AS key")
    counted = rows.mapInArrow(_same, "key long").groupBy("key").count()
    with tempfile.TemporaryDirectory(prefix="flinkwatch-") as folder:
        query = counted.writeStream.format("noop").outputMode("update").option("checkpointLocation", folder).start()
        try:
            for _ in range(_QUERY_WITHIN_S):
                if query.awaitTermination(1) or any(progress.numInputRows for progress in query.recentProgress):
                    break
        finally:
            query.stop()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


if __name__ == "__main__":
    make()
