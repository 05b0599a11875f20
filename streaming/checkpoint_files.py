"""Files of a checkpoint that are damaged, by name: Spark often says that one is, and not which.

Only for a checkpoint on this host; of another storage Spark's own words have to do.
"""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from streaming.troubles import REBUILD, RESTORE

_LOGS = ("offsets", "commits")


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


def _damaged(folder: Path) -> Iterator[tuple[Path, str]]:
    for file in (folder / "metadata", folder / "flinkwatch.json"):
        if file.is_file() and (problem := _json_problem(file.read_bytes())):
            yield file, problem
    for name in _LOGS:
        for file in sorted(_numbered(folder / name), key=lambda file: -int(file.name)):
            if problem := _log_problem(file.read_bytes()):
                yield file, problem
    for file in sorted(folder.glob("state/**/*.zip")):
        if problem := _zip_problem(file):
            yield file, problem
    for file in sorted(folder.glob("state/**/*")):
        if file.is_file() and not file.stat().st_size and not file.name.startswith("."):
            yield file, "is empty"


def _numbered(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name.isdigit()] if folder.is_dir() else []


def _json_problem(data: bytes) -> str:
    if not data.strip():
        return "is empty"
    try:
        json.loads(data)
    except ValueError:
        return "is damaged"
    return ""


def _log_problem(data: bytes) -> str:
    """A log of Spark is its version, then one JSON document a line; a source without an offset is a dash."""
    lines = data.splitlines()
    if not lines:
        return "is empty"
    if not lines[0].startswith(b"v"):
        return "is damaged"
    if not lines[1:]:
        return "is cut off"
    return next((p for line in lines[1:] if line != b"-" and (p := _json_problem(line))), "")


def _zip_problem(file: Path) -> str:
    try:
        with ZipFile(file) as archive:
            bad = archive.testzip()
    except (BadZipFile, zlib.error, OSError, EOFError, NotImplementedError):
        return "is empty" if not file.stat().st_size else "is damaged"
    return f"is damaged in {bad}" if bad else ""


def _advice(folder: Path, file: Path) -> str:
    if file.parent.name in _LOGS and file.parent.parent == folder:
        newest = max(int(each.name) for name in _LOGS for each in _numbered(folder / name))
        if int(file.name) == newest:
            both = " and ".join(str(folder / name / file.name) for name in _LOGS)
            return f"move {both} away and start again, the records of that batch are read again. Or: {REBUILD}"
    return RESTORE
