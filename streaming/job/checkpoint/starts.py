"""How many processes in a row were killed during the same batch, kept in the checkpoint with the limit in force.

A container that is killed as a whole, as for lack of memory, takes along what its process knew of that, and the next
process reads the same batch again. So each start notes the batch that it finds planned and not finished, and a process
that ends by itself notes that it was not killed.
"""

from typing import Annotated

import msgspec
from pyspark.sql import SparkSession

from streaming.job.checkpoint.hadoop import HadoopFolder, opened
from streaming.job.checkpoint.offset_log import unfinished_batch

_FILE = "flinkwatch-starts.json"


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The unfinished `batch` that a process found (-1: none) and how many processes in a row `ended` during it, killed.

    `max_offsets` is the limit of a batch that was in force last (0: none was kept).
    """

    batch: Annotated[int, msgspec.Meta(ge=-1)] = -1
    ended: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_offsets: Annotated[int, msgspec.Meta(ge=0)] = 0


def note_start(spark: SparkSession, place: str) -> Start:
    """Note the start of a process. Raises PreflightError if the checkpoint cannot be read or written."""
    with opened(spark, place) as folder:
        last = folder.kept(_FILE, Start, Start(), "earlier starts in the checkpoint are damaged and not counted")
        batch = unfinished_batch(folder)
        if batch is None:
            start = Start(max_offsets=last.max_offsets)
        else:
            start = Start(batch.number, last.ended + 1 if last.batch == batch.number else 1, last.max_offsets)
        _keep(folder, last, start)
    return start


def note_end(spark: SparkSession, place: str, start: Start) -> None:
    """Note that the process ends by itself. Raises Py4JError."""
    _keep(HadoopFolder(spark, place), start, msgspec.structs.replace(start, batch=-1, ended=0))


def keep_limit(spark: SparkSession, place: str, start: Start, max_offsets: int) -> Start:
    """Keep the limit in force for the next process. Raises Py4JError."""
    now = msgspec.structs.replace(start, max_offsets=max_offsets)
    _keep(HadoopFolder(spark, place), start, now)
    return now


def _keep(folder: HadoopFolder, last: Start, now: Start) -> None:
    if now != last:
        folder.replace(_FILE, msgspec.json.encode(now))
