"""Finds the damaged files of a checkpoint by name, since Spark often reports damage without naming the file.

It works only for a checkpoint on this host.
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
    """The folder on this host, None if the checkpoint is elsewhere."""
    scheme, colon, rest = checkpoint.partition(":")
    if not colon:
        return Path(checkpoint)
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def damage_in(checkpoint: str) -> str:
    """The first damaged file and what to do about it, in one line; empty if none is found or this user may not look."""
    folder = local_path(checkpoint)
    try:
        if folder is not None and folder.is_dir():
            for file, problem in _damaged(folder):
                return f"{file} {problem}: {_advice(folder, file)}"
    except PermissionError:
        # The caller's own error says that the checkpoint cannot be read, and by which user.
        return ""
    return ""


def room_left(*folders: str) -> str:
    """Free space on the file systems of these folders, least free first."""
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
    """The damaged files with their problems, starting with those that a start needs first."""
    logs = [file for name in _LOGS for file in sorted(_numbered(folder / name), key=lambda file: -int(file.name))]
    state = [each for each in sorted(folder.glob("state/**/*")) if each.is_file() and not each.name.startswith(".")]
    if _numbered(folder / "commits") and not _numbered(folder / "offsets"):
        yield folder / "offsets", "has lost its files"
    for file in (folder / "metadata", folder / "flinkwatch.json", *logs, *state):
        try:
            problem = _problem(file, is_log=file in logs)
        except FileNotFoundError:
            # Spark may remove old files meanwhile.
            continue
        if problem:
            yield file, problem


def _numbered(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name.isdigit()] if folder.is_dir() else []


def _problem(file: Path, *, is_log: bool) -> str:
    data = file.read_bytes()
    if not data:
        return "is empty"
    # A log file of Spark has its version in the first line and JSON in the others.
    if is_log and (not data.startswith(b"v") or len(data.splitlines()) < _LINES_OF_A_LOG):
        return "is cut off"
    checksums = file.with_name(f".{file.name}.crc")
    return "" if not checksums.is_file() or _is_whole(data, checksums.read_bytes()) else "is damaged"


def _is_whole(data: bytes, checksums: bytes) -> bool:
    """Check Hadoop's checksums: a header of eight bytes, then a CRC-32 of every 512 bytes, in a file next to it."""
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
            return f"move {both} away and start again; the records of that batch are then read again. Or: {REBUILD}"
    return RESTORE
