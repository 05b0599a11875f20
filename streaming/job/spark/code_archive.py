"""flinkwatch itself as one file, for executors that have its dependencies only."""

import tempfile
from functools import cache
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

_ROOT = Path(__file__).resolve().parents[3]
_PARTS = {"detectors": "*.py", "sinks": "*.py", "streaming": "*.py", "conf": "*.yaml"}


def program() -> Path:
    """A zip file of the packages, which lasts as long as the process: Spark serves it to executors from there."""
    target = Path(_folder().name) / "flinkwatch.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for part, pattern in _PARTS.items():
            for file in sorted((_ROOT / part).rglob(pattern)):
                archive.write(file, file.relative_to(_ROOT))
    return target


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="flinkwatch-")
