"""The processes of a running job, by what they are: for tests that kill or freeze one of them."""

import os
import signal
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """All children of a process and theirs."""
    found = [child for child, parent in _parents().items() if parent == pid]
    return found + [each for child in found for each in descendants(child)]


def jvm_of(pid: int) -> int:
    """The JVM of the job."""
    return next(each for each in descendants(pid) if Path(f"/proc/{each}/exe").resolve().name == "java")


def daemons_of(pid: int) -> list[int]:
    """pyspark's daemons, which start the workers, and not the workers."""
    daemons = [each for each in descendants(pid) if "pyspark.daemon" in _command(each)]
    return [each for each in daemons if _parents().get(each) not in daemons]


def workers_of(pid: int) -> list[int]:
    """The Python workers that the daemons have started."""
    return [child for daemon in daemons_of(pid) for child in descendants(daemon)]


def send(pids: list[int], number: signal.Signals) -> None:
    """A signal to each that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text(errors="replace")
        except OSError:
            continue
        parents[int(status.parent.name)] = int(text.rpartition(")")[2].split()[1])
    return parents
