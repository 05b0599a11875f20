"""Files of a checkpoint that are damaged, by name: Spark often says that one is, and not which.

Only for a checkpoint on this host; of another storage Spark's own words have to do.
"""

import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from streaming.job.spark.troubles import REBUILD, RESTORE

_LOGS = ("offsets", "commits")
_LINES_OF_A_LOG = 2


def local_path(checkpoint: str) -> Path | None:
    """The folder on this host, None when the checkpoint is elsewhere."""
    scheme, colon, rest = checkpoint.partition(":")
    if not colon:
        return Path(checkpoint)
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def damage_in(checkpoint: str) -> str:
    """The first damaged file and what to do about it, in one line; empty when there is none to be seen."""
    folder = local_path(checkpoint)
    if folder is None or not folder.is_dir():
        return ""
    for file, problem in _damaged(folder):
        return f"{file} {problem}: {_advice(folder, file)}"
    return ""


def room_left(*folders: str) -> str:
    """How much room the file systems of these folders have, the fullest first."""
    found = {}
    for name in folders:
        folder = local_path(name)
        if folder is not None and folder.is_dir():
            found[folder] = shutil.disk_usage(folder)
    return ", ".join(
        f"{folder} has {usage.free / 1e6:,.1f} MB free of {usage.total / 1e6:,.0f} MB"
        for folder, usage in sorted(found.items(), key=lambda each: each[1].free)
    )


def _damaged(folder: Path) -> Iterator[tuple[Path, str]]:
    """The files that a start needs first."""
    logs = [file for name in _LOGS for file in sorted(_numbered(folder / name), key=lambda file: -int(file.name))]
    state = [each for each in sorted(folder.glob("state/**/*")) if each.is_file() and not each.name.startswith(".")]
    if _numbered(folder / "commits") and not _numbered(folder / "offsets"):
        yield folder / "offsets", "has lost its files"
    for file in (folder / "metadata", folder / "flinkwatch.json", *logs, *state):
        try:
            problem = _problem(file, is_log=file in logs)
        except FileNotFoundError:
            # Spark removes old ones meanwhile.
            continue
        if problem:
            yield file, problem


def _numbered(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name.isdigit()] if folder.is_dir() else []


def _problem(file: Path, *, is_log: bool) -> str:
    data = file.read_bytes()
    if not data:
        return "is empty"
    # A log of Spark is its version, then JSON; without that it was cut off.
    if is_log and (not data.startswith(b"v") or len(data.splitlines()) < _LINES_OF_A_LOG):
        return "is cut off"
    checksums = file.with_name(f".{file.name}.crc")
    return "" if not checksums.is_file() or _is_whole(data, checksums.read_bytes()) else "is damaged"


def _is_whole(data: bytes, checksums: bytes) -> bool:
    """Hadoop writes a CRC-32 of every 512 bytes into a file beside it, after a header of eight bytes."""
    if not checksums.startswith(b"crc\0"):
        return True
    (size,) = struct.unpack_from("!i", checksums, 4)
    sums = b"".join(struct.pack("!I", zlib.crc32(data[i : i + size])) for i in range(0, len(data), size))
    return sums == checksums[8:]


def _advice(folder: Path, file: Path) -> str:
    if file.parent.name in _LOGS and file.parent.parent == folder:
        newest = max(int(each.name) for name in _LOGS for each in _numbered(folder / name))
        if int(file.name) == newest:
            both = " and ".join(str(folder / name / file.name) for name in _LOGS)
            return f"move {both} away and start again, the records of that batch are read again. Or: {REBUILD}"
    return RESTORE
