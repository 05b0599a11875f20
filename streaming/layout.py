"""What the checkpoint fixes at the first start: buckets, partitions, the version of the state."""

from typing import Any

import msgspec
from pyspark.sql import SparkSession

from detectors.engine import STATE_VERSION
from streaming.errors import PreflightError
from streaming.settings import Settings


def check_layout(spark: SparkSession, settings: Settings) -> None:
    """Buckets and partitions are fixed by the checkpoint: state would be looked for where it is not."""
    wanted = {
        "buckets": settings.streaming.buckets,
        "shuffle_partitions": settings.streaming.shuffle_partitions,
        "state_version": STATE_VERSION,
    }
    jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no public way to Hadoop's file systems
    path = jvm.org.apache.hadoop.fs.Path(settings.streaming.checkpoint, "flinkwatch.json")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if not files.exists(path):
        # Under another name first: a start that is killed here must not leave half a file.
        draft = path.suffix(".draft")
        file = files.create(draft, True)
        file.write(bytearray(msgspec.json.encode(wanted)))
        file.close()
        if not files.rename(draft, path):
            raise PreflightError(f"{path} cannot be written: renaming {draft} was refused")
        return
    stream = files.open(path)
    found = msgspec.json.decode(bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream)))
    stream.close()
    different = [f"{k} is {wanted[k]}, the checkpoint has {found.get(k)}" for k in wanted if found.get(k) != wanted[k]]
    if different:
        raise PreflightError(
            f"{settings.streaming.checkpoint} was made with other settings: {'; '.join(different)}. They "
            f"are fixed at the first start: "
            "set them back, or name a new streaming.checkpoint (history and open incidents start anew)."
        )
