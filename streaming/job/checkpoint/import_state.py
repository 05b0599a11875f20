"""`flinkwatch state import`: a new checkpoint that begins with exported state, in as many buckets as are configured."""

from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from detectors.engine.bucket import encode_index
from detectors.engine.redistribute import redistribute
from streaming.configuration.settings import Settings
from streaming.job.checkpoint.files import local_path
from streaming.job.checkpoint.imported_state import ImportedBucket, write_bucket
from streaming.job.checkpoint.lock import CheckpointLock
from streaming.job.checkpoint.rebuild import replace
from streaming.job.checkpoint.rebuild_plan import RebuildPlan
from streaming.job.checkpoint.state_file import StateExport, StateFileError, UnfinishedBatch, read_export
from streaming.job.rows import bucket_of

_PARTITIONS = "spark.sql.shuffle.partitions"


class ImportResult(NamedTuple):
    """The number of clusters, and where the old checkpoint is now, if there was one."""

    clusters: int
    kept: Path | None


def import_state(settings: Settings, file: Path, now: int) -> ImportResult:
    """Create the new checkpoint. An old one in its place is moved into its folder `before-rebuild-TIME`.

    Raises StateFileError, RebuildError if files cannot be moved, and PreflightError while a job uses the checkpoint.
    """
    place = settings.streaming.checkpoint
    folder = local_path(place)
    if folder is None:
        raise StateFileError(
            f"streaming.checkpoint: {place} is not on this host. Set it to a folder on this host or on a "
            "mounted volume, which the executors also see"
        )
    export = read_export(file)
    buckets = redistributed(export, settings.streaming.buckets)
    with CheckpointLock(folder).held(within=0):
        kept = replace(folder, RebuildPlan(offsets=export.header.offsets), now)
        try:
            for number, bucket in buckets.items():
                write_bucket(folder, number, bucket)
            if export.header.unfinished is not None:
                _plan_again(folder, export.header.unfinished, settings.streaming.shuffle_partitions)
        except OSError as error:
            raise StateFileError(f"{error.filename or folder}: {error.strerror or error}") from error
    return ImportResult(len(export.clusters), kept)


def redistributed(export: StateExport, buckets: int) -> dict[int, ImportedBucket]:
    """The state of each of `buckets` buckets. Pure."""
    indexes = redistribute(export.indexes, buckets, lambda cluster: bucket_of(cluster, buckets))
    made = {number: ImportedBucket(encode_index(index)) for number, index in indexes.items()}
    for cluster, state in export.clusters.items():
        made[bucket_of(cluster, buckets)].clusters[cluster] = state
    return made


def _plan_again(folder: Path, batch: UnfinishedBatch, partitions: int) -> None:
    """Plan the batch as the first one of the new checkpoint, as after a crash during the first batch."""
    *first, metadata = batch.head
    found = msgspec.json.decode(metadata)
    found["conf"][_PARTITIONS] = str(partitions)
    lines = [*first, msgspec.json.encode(found).decode(), msgspec.json.encode(batch.ends).decode()]
    # Spark refuses planned batches without the id of their query.
    (folder / "metadata").write_bytes(msgspec.json.encode({"id": str(uuid4())}))
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text("\n".join(lines))
