"""flinkwatch's code as one zip file, for executors that have only its dependencies."""

import tempfile
from functools import cache
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

_ROOT = Path(__file__).resolve().parents[3]
_PARTS = {"detectors": "*.py", "sinks": "*.py", "streaming": "*.py", "conf": "*.yaml"}


def program() -> Path:
    """Write the packages into a zip file that exists as long as the process, since Spark serves it to executors."""
    target = Path(_folder().name) / "flinkwatch.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for part, pattern in _PARTS.items():
            for file in sorted((_ROOT / part).rglob(pattern)):
                archive.write(file, file.relative_to(_ROOT))
    return target


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="flinkwatch-")
