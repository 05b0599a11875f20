"""The batches that Spark has planned: the file `offsets/NUMBER` of the checkpoint says where batch NUMBER ends.

A query that starts first reads the batch that was planned and not finished, always up to the same ends, so that it
writes the same transitions again. Shorter batches find the same incidents under the same ids, but in a backlog their
transitions may have other numbers. So a batch is only shortened if it would fail again and again.
"""

from typing import NamedTuple

import msgspec
from pyspark.sql import SparkSession

from streaming.job.checkpoint.hadoop import HadoopFolder, opened
from streaming.job.checkpoint.offsets import Offsets, between, decode_offsets

# Where the first batch begins.
_INITIAL = "sources/0/0"


class PlannedBatch(NamedTuple):
    """A batch with its `ends`; `head` are the lines of its file before them."""

    number: int
    head: list[str]
    ends: Offsets


def newest_batch(folder: HadoopFolder) -> PlannedBatch | None:
    """The newest batch, finished or not; None if there is none or its file is damaged."""
    numbers = _numbers(folder, "offsets")
    lines = _lines(folder, f"offsets/{max(numbers)}") if numbers else None
    return None if lines is None else PlannedBatch(max(numbers), *lines)


def finished_batch(folder: HadoopFolder) -> PlannedBatch | None:
    """The newest finished batch; None if there is none or its file is damaged."""
    numbers = set(_numbers(folder, "offsets")) & set(_numbers(folder, "commits"))
    lines = _lines(folder, f"offsets/{max(numbers)}") if numbers else None
    return None if lines is None else PlannedBatch(max(numbers), *lines)


def unfinished_batch(folder: HadoopFolder) -> PlannedBatch | None:
    """The batch that was planned and not finished; None if there is none or its file is damaged."""
    batch = newest_batch(folder)
    return None if batch is None or batch.number in _numbers(folder, "commits") else batch


def write_ends(folder: HadoopFolder, batch: PlannedBatch, ends: Offsets) -> None:
    """Change where a batch ends. Atomically, since a partial file would stop the query."""
    lines = [*batch.head, msgspec.json.encode(ends).decode()]
    folder.replace(f"offsets/{batch.number}", "\n".join(lines).encode())


def shorten_planned(spark: SparkSession, place: str, limit: int) -> int:
    """Shorten the batch that was planned and not finished to `limit` offsets; the following batches read the rest.

    Returns how many offsets it had, 0 if no batch was shortened. Raises PreflightError.
    """
    with opened(spark, place) as folder:
        batch = unfinished_batch(folder)
        if batch is None:
            return 0
        before = _lines(folder, f"offsets/{batch.number - 1}" if batch.number else _INITIAL)
        planned = between(before.offsets, batch.ends) if before else 0
        if before is None or planned <= limit:
            return 0
        write_ends(folder, batch, shortened(before.offsets, batch.ends, limit))
    return planned


def shortened(begins: Offsets, ends: Offsets, limit: int) -> Offsets:
    """The ends of a batch of `limit` offsets, of which each partition has the same share as before. Pure.

    Every partition with records keeps at least one. A partition without a known begin, or whose offsets began again,
    keeps its end.
    """
    planned = between(begins, ends)

    def end_of(begin: int, end: int) -> int:
        return end if planned <= limit or end <= begin else begin - (begin - end) * limit // planned

    return {
        topic: {p: end_of(begins.get(topic, {}).get(p, end), end) for p, end in partitions.items()}
        for topic, partitions in ends.items()
    }


class _OffsetFile(NamedTuple):
    head: list[str]
    offsets: Offsets


def _lines(folder: HadoopFolder, file: str) -> _OffsetFile | None:
    try:
        *head, offsets = (folder.read(file) or b"").decode().splitlines()
        return _OffsetFile(head, decode_offsets(offsets))
    except (ValueError, msgspec.MsgspecError):
        return None


def _numbers(folder: HadoopFolder, log: str) -> list[int]:
    return [int(name) for name in folder.names(log) if name.isdigit()]
