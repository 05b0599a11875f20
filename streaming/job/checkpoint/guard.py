"""Checks that the settings which a checkpoint fixes at the first start have not changed."""

import os
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from detectors.engine.state import STATE_VERSION
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.checkpoint.files import damage_in
from streaming.job.spark.troubles import RESTORE


def check_layout(spark: SparkSession, settings: Settings) -> None:
    """Check buckets, partitions and state version: with other values, Spark would not find the state.

    Raises PreflightError, also if the checkpoint cannot be read or written.
    """
    place = settings.streaming.checkpoint
    try:
        _check(spark, settings)
    except Py4JError as error:
        if damage := damage_in(place):
            raise PreflightError(damage) from error
        reason = f"cannot be read or written as user {os.getuid()}: {_reason(error)}"
        raise PreflightError(f"streaming.checkpoint: {place} {reason}") from error
    except msgspec.DecodeError as error:
        damage = damage_in(place) or f"{place}/flinkwatch.json is damaged ({error}): {RESTORE}"
        raise PreflightError(damage) from error


def _check(spark: SparkSession, settings: Settings) -> None:
    wanted = {
        "buckets": settings.streaming.buckets,
        "shuffle_partitions": settings.streaming.shuffle_partitions,
        "state_version": STATE_VERSION,
    }
    jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no public way to Hadoop's file systems
    path = jvm.org.apache.hadoop.fs.Path(settings.streaming.checkpoint, "flinkwatch.json")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if not files.exists(path):
        # Written under another name first, so that a kill at this point leaves no partial file.
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
    different = [
        f"{k} is now {wanted[k]}, was {found.get(k)} at the first start" for k in wanted if found.get(k) != wanted[k]
    ]
    if different:
        raise PreflightError(
            f"{settings.streaming.checkpoint} was created with other settings: {'; '.join(different)}. "
            "Restore these settings, or set a new streaming.checkpoint, which starts without history."
        )


def _reason(error: Py4JError) -> str:
    """Java's message, without the package of the exception."""
    thrown = getattr(error, "java_exception", None)
    return str(thrown.toString()).splitlines()[0].rpartition("Exception: ")[2] if thrown is not None else str(error)
