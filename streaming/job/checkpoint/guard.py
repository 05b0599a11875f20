"""Checks that a checkpoint was written with these settings, and by a version whose state this one reads."""

import os

import msgspec
import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from detectors.engine.bucket import INDEX_FORMAT
from detectors.engine.state import STATE_FORMAT
from detectors.values.stored_format import StoredFormat
from sinks.prometheus.catalogue import running_version
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.checkpoint.files import damage_in
from streaming.job.checkpoint.hadoop import HadoopFolder, reason
from streaming.job.spark.troubles import REBUILD, RESTORE

log = structlog.get_logger()

_FILE = "flinkwatch.json"


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint fixes at its first start, and the versions of the state that the last start could write.

    `written_by` is the version of flinkwatch of that start; empty if it was a build before 0.1.
    """

    buckets: int
    shuffle_partitions: int
    state_version: int
    index_version: int = 2
    written_by: str = ""

    def differences(self, wanted: "Layout") -> list[str]:
        """Settings that are not those of the first start, as sentences."""
        return [
            f"{name} is now {getattr(wanted, name)}, was {getattr(self, name)} at the first start"
            for name in ("buckets", "shuffle_partitions")
            if getattr(self, name) != getattr(wanted, name)
        ]

    def unreadable(self) -> list[str]:
        """The formats that this flinkwatch does not read, as sentences."""
        return [
            f"{form.name} has version {found}, {form.readable()}"
            for form, found in self._formats()
            if not form.oldest <= found <= form.version
        ]

    def is_newer(self) -> bool:
        """Whether a format has a version that this flinkwatch does not know yet."""
        return any(found > form.version for form, found in self._formats())

    def _formats(self) -> list[tuple[StoredFormat[msgspec.Struct], int]]:
        return [(STATE_FORMAT, self.state_version), (INDEX_FORMAT, self.index_version)]  # type: ignore[list-item]


def layout_of(settings: Settings) -> Layout:
    """The layout that a start with these settings writes."""
    return Layout(
        buckets=settings.streaming.buckets,
        shuffle_partitions=settings.streaming.shuffle_partitions,
        state_version=STATE_FORMAT.version,
        index_version=INDEX_FORMAT.version,
        written_by=running_version(),
    )


def read_layout(folder: HadoopFolder) -> Layout | None:
    """The layout of a checkpoint, None if it is new. Raises Py4JError, MsgspecError."""
    content = folder.read(_FILE)
    return None if content is None else msgspec.json.decode(content, type=Layout)


def check_layout(spark: SparkSession, settings: Settings) -> None:
    """Check buckets and partitions, with other values of which Spark would not find the state, and its version.

    A checkpoint of an older version whose state this one can migrate is marked as written by this one. Raises
    PreflightError, also if the checkpoint cannot be read or written.
    """
    place = settings.streaming.checkpoint
    try:
        _check(HadoopFolder(spark, place), layout_of(settings))
    except Py4JError as error:
        unusable = f"streaming.checkpoint: {place} cannot be read or written as user {os.getuid()}: {reason(error)}"
        raise PreflightError(damage_in(place) or unusable) from error
    except msgspec.MsgspecError as error:
        raise PreflightError(damage_in(place) or f"{place}/{_FILE} is damaged ({error}): {RESTORE}") from error


def _check(folder: HadoopFolder, wanted: Layout) -> None:
    found = read_layout(folder)
    if found is None:
        if not folder.create(_FILE, msgspec.json.encode(wanted)):
            raise PreflightError(f"{folder.place}/{_FILE} cannot be written: renaming {_FILE}.draft was refused")
        return
    if problem := refusal(found, wanted):
        raise PreflightError(f"{folder.place} {problem}")
    if found != wanted:
        log.info("checkpoint is used by another version", before=found.written_by, now=wanted.written_by)
        folder.replace(_FILE, msgspec.json.encode(wanted))


def refusal(found: Layout, wanted: Layout) -> str:
    """Why a start with the layout `wanted` would not continue a checkpoint with the layout `found`, and what to do.

    Empty if it would.
    """
    if unreadable := "; ".join(found.unreadable()):
        by = found.written_by or "a build before 0.1"
        ways = f"restore the copy that you made before the upgrade, or: {REBUILD}"
        if found.is_newer():
            return f"was written by flinkwatch {by}, which is newer: {unreadable}. Start that version again, {ways}"
        between = "Start a version in between first" if found.written_by else "No version migrates it"
        return f"was written by flinkwatch {by}, which is too old: {unreadable}. {between}, {ways}"
    if different := "; ".join(found.differences(wanted)):
        return (
            f"was created with other settings: {different}. Restore these settings, or move the state with "
            "`flinkwatch state export` and `flinkwatch state import`"
        )
    return ""
