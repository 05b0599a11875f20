"""Small files in the checkpoint's folder, through Hadoop, because the checkpoint may be on any storage."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import msgspec
import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from streaming.errors import PreflightError

log = structlog.get_logger()

_Kept = TypeVar("_Kept")


class HadoopFolder:
    """One folder. Every method raises Py4JError if the storage refuses it."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no public way to Hadoop's file systems
        context: Any = spark._jsc  # noqa: SLF001
        self._configuration = context.hadoopConfiguration()
        self.place = place
        self._files = self._path("").getFileSystem(self._configuration)

    def names(self, folder: str) -> list[str]:
        """Names of the files in a sub-folder, none if it does not exist."""
        path = self._path(folder)
        return [each.getPath().getName() for each in self._files.listStatus(path)] if self._files.exists(path) else []

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if it does not exist."""
        path = self._path(name)
        if not self._files.exists(path):
            return None
        with closing(self._files.open(path)) as stream:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    def kept(self, name: str, form: type[_Kept], otherwise: _Kept, damaged: str) -> _Kept:
        """What an earlier start kept as JSON, `otherwise` if there is nothing. Logs `damaged` if it is unreadable."""
        try:
            content = self.read(name)
            return otherwise if content is None else msgspec.json.decode(content, type=form)
        except msgspec.MsgspecError:
            pass
        except Py4JError as error:
            if "ChecksumException" not in str(error):
                raise
        log.warning(damaged, file=f"{self.place}/{name}")
        return otherwise

    def create(self, name: str, content: bytes) -> bool:
        """Write a new file with checksums, first under another name, so that a kill leaves no partial file."""
        path = self._path(name)
        draft = path.suffix(".draft")
        with closing(self._files.create(draft, True)) as stream:
            stream.write(bytearray(content))
        return bool(self._files.rename(draft, path))

    def replace(self, name: str, content: bytes) -> None:
        """Write a file atomically, as Spark does; an existing one is replaced."""
        managers = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        stream = managers.create(self._path(""), self._configuration).createAtomic(self._path(name), True)
        try:
            stream.write(bytearray(content))
        except Py4JError:
            stream.cancel()
            raise
        stream.close()

    def _path(self, name: str) -> Any:
        paths = self._jvm.org.apache.hadoop.fs.Path
        return paths(self.place, name) if name else paths(self.place)


@contextmanager
def opened(spark: SparkSession, place: str) -> Iterator[HadoopFolder]:
    """The folder of the checkpoint. A refusal of its storage becomes a PreflightError."""
    try:
        yield HadoopFolder(spark, place)
    except Py4JError as error:
        raise PreflightError(f"streaming.checkpoint: {place} cannot be read or written: {reason(error)}") from error


def reason(error: Py4JError) -> str:
    """The first line of Java's message, without the package of the exception."""
    thrown = getattr(error, "java_exception", None)
    return str(thrown.toString()).splitlines()[0].rpartition("Exception: ")[2] if thrown is not None else str(error)
