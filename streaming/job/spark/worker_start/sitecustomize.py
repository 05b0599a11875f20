"""Connects a Python worker to Spark before the worker imports anything.

Spark waits 10 s (hard-coded) for the worker that the driver starts with each query, and on a busy host the imports
alone take longer. Python runs this file first, because the driver adds its folder to PYTHONPATH of the JVM
(streaming/job/spark/jvm.py). In any other process it does nothing. Standard library only.
"""

import os
import runpy
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent


def _connect(path: str) -> None:
    import socket  # noqa: PLC0415 - most processes that run this file need none

    early = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    early.connect(path)

    def connect(self: socket.socket, address: Any) -> None:
        if address != path:
            super(socket.socket, self).connect(address)
            return
        del socket.socket.connect
        early.setblocking(self.gettimeout() is None)
        os.dup2(early.fileno(), self.fileno())
        early.close()

    socket.socket.connect = connect  # type: ignore[method-assign, assignment]


def _run_shadowed() -> None:
    """Run a sitecustomize of the host, which this one hides."""
    for folder in map(Path, sys.path):
        other = folder / "sitecustomize.py"
        if folder.resolve() != _HERE and other.is_file():
            runpy.run_path(str(other))
            return


_path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
if _path:
    _connect(_path)
_run_shadowed()
