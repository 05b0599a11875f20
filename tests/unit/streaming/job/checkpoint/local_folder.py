"""A checkpoint on the local disk with files as Spark writes them, without Hadoop."""

import json
from pathlib import Path

from streaming.job.checkpoint.hadoop import HadoopFolder
from streaming.job.checkpoint.offsets import Offsets


class LocalFolder(HadoopFolder):
    """Reads and replaces files without Hadoop."""

    def __init__(self, _: object, place: str) -> None:
        self.place = place
        self._folder = Path(place)

    def names(self, folder: str) -> list[str]:
        return [file.name for file in (self._folder / folder).glob("*")]

    def read(self, name: str) -> bytes | None:
        file = self._folder / name
        return file.read_bytes() if file.exists() else None

    def replace(self, name: str, content: bytes) -> None:
        (self._folder / name).write_bytes(content)


def empty_checkpoint(place: Path) -> Path:
    """A checkpoint without batches."""
    for name in ("offsets", "commits", "sources/0"):
        (place / name).mkdir(parents=True)
    (place / "offsets" / ".0.crc").write_bytes(b"x")
    return place


def plan(place: Path, number: int, ends: Offsets) -> None:
    (place / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(ends)}')


def finish(place: Path, number: int) -> None:
    (place / "commits" / str(number)).write_text("v1\n{}")
