"""A temporary folder of this process. Those that killed processes have left are removed."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "flinkwatch-site-"
_LOCK = "lock"


@contextmanager
def private_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder that only this user can read, in `parent` or where temporary files are. Raises OSError."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    _remove_left_over(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        with (folder / _LOCK).open("wb") as lock:
            # The system releases it when the process ends, however it ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left_over(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        # Folders of other users and of processes that still run stay.
        with suppress(OSError), (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
