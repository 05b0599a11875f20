"""`flinkwatch state export`: reads the state out of a checkpoint with Spark's own reader, while no job uses it."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple, TextIO

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from detectors.engine.state import StateVersionError
from sinks.prometheus.catalogue import running_version
from streaming.configuration.settings import Settings
from streaming.job.checkpoint.files import damage_in, local_path
from streaming.job.checkpoint.guard import read_layout
from streaming.job.checkpoint.hadoop import HadoopFolder, opened
from streaming.job.checkpoint.lock import CheckpointLock
from streaming.job.checkpoint.offset_log import finished_batch, unfinished_batch
from streaming.job.checkpoint.state_file import (
    ExportHeader,
    ExportLine,
    StateFileError,
    UnfinishedBatch,
    cluster_line,
    index_line,
    write_export,
)
from streaming.job.spark.jvm import Jvm
from streaming.job.spark.session import start_session
from streaming.job.spark.troubles import cause_of


class ExportResult(NamedTuple):
    clusters: int
    header: ExportHeader


def export_state(settings: Settings, out: TextIO) -> ExportResult:
    """Write the state of the checkpoint `streaming.checkpoint` to `out`. Changes nothing in the checkpoint.

    Raises StateFileError, OSError, and PreflightError while a job uses the checkpoint or if Spark does not start.
    """
    place = settings.streaming.checkpoint
    with ExitStack() as exits:
        if (folder := local_path(place)) is not None:
            if not folder.is_dir():
                raise StateFileError(f"{place}: there is no checkpoint. Name its folder with --checkpoint")
            exits.enter_context(CheckpointLock(folder).held(within=0))
        jvm = Jvm()
        exits.callback(jvm.end)
        spark = start_session(settings.streaming, jvm)
        with opened(spark, place) as files:
            header = _header(files)
        try:
            return ExportResult(write_export(out, header, _lines(spark, place, header.batch)), header)
        except (PySparkException, Py4JError) as error:
            raise StateFileError(damage_in(place) or f"{place} cannot be read: {cause_of(error)}") from error
        except StateVersionError as error:
            raise StateFileError(f"{place}: {error}. Export it with the version that wrote it") from error


def _header(files: HadoopFolder) -> ExportHeader:
    layout = read_layout(files)
    batch = finished_batch(files)
    if layout is None or batch is None:
        raise StateFileError(f"{files.place} has no finished batch, so it has no state that could be exported")
    unfinished = unfinished_batch(files)
    return ExportHeader(
        written_by=layout.written_by or running_version(),
        buckets=layout.buckets,
        shuffle_partitions=layout.shuffle_partitions,
        batch=batch.number,
        offsets=batch.ends,
        unfinished=None if unfinished is None else UnfinishedBatch(unfinished.head, unfinished.ends),
    )


def _lines(spark: SparkSession, place: str, batch: int) -> Iterator[ExportLine]:
    # The reader needs the coordinator of state stores, which only the manager of queries starts.
    _ = spark.streams.active
    for row in _rows(_variable(spark, place, batch, "index")):
        yield index_line(row.key.bucket, bytes(row.value.data))
    for row in _rows(_variable(spark, place, batch, "clusters")):
        yield cluster_line(row.key.bucket, row.user_map_key.cluster, bytes(row.user_map_value.data))


def _variable(spark: SparkSession, place: str, batch: int, name: str) -> DataFrame:
    reader = spark.read.format("statestore").option("path", place).option("batchId", batch)
    return reader.option("stateVarName", name).load()


def _rows(frame: DataFrame) -> Iterator[Any]:
    """The rows, one partition at a time."""
    return iter(frame.toLocalIterator())
