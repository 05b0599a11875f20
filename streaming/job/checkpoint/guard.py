"""Checks that the settings which a checkpoint fixes at the first start have not changed."""

import os

import msgspec
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from detectors.engine.state import STATE_VERSION
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.checkpoint.files import damage_in
from streaming.job.checkpoint.hadoop import HadoopFolder, reason
from streaming.job.spark.troubles import RESTORE

_FILE = "flinkwatch.json"


def check_layout(spark: SparkSession, settings: Settings) -> None:
    """Check buckets, partitions and state version: with other values, Spark would not find the state.

    Raises PreflightError, also if the checkpoint cannot be read or written.
    """
    place = settings.streaming.checkpoint
    try:
        _check(HadoopFolder(spark, place), settings)
    except Py4JError as error:
        unusable = f"streaming.checkpoint: {place} cannot be read or written as user {os.getuid()}: {reason(error)}"
        raise PreflightError(damage_in(place) or unusable) from error
    except msgspec.DecodeError as error:
        raise PreflightError(damage_in(place) or f"{place}/{_FILE} is damaged ({error}): {RESTORE}") from error


def _check(folder: HadoopFolder, settings: Settings) -> None:
    place = settings.streaming.checkpoint
    wanted = {
        "buckets": settings.streaming.buckets,
        "shuffle_partitions": settings.streaming.shuffle_partitions,
        "state_version": STATE_VERSION,
    }
    content = folder.read(_FILE)
    if content is None:
        if not folder.create(_FILE, msgspec.json.encode(wanted)):
            raise PreflightError(f"{place}/{_FILE} cannot be written: renaming {_FILE}.draft was refused")
        return
    found = msgspec.json.decode(content)
    different = [
        f"{k} is now {wanted[k]}, was {found.get(k)} at the first start" for k in wanted if found.get(k) != wanted[k]
    ]
    if different:
        raise PreflightError(
            f"{place} was created with other settings: {'; '.join(different)}. "
            "Restore these settings, or set a new streaming.checkpoint, which starts without history."
        )
