"""The kernel's OOM killer, through a cgroup (version 1) with next to no memory."""

import contextlib
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

_CGROUPS = Path("/sys/fs/cgroup/memory")
_LIMIT = 1 << 16


class Starved:
    """A cgroup with 64 kB of memory. What a process had before is not charged to it, what it takes next is."""

    def __init__(self) -> None:
        self._group = _CGROUPS / f"flinkwatch-test-{uuid.uuid4().hex[:8]}"
        self._procs = self._group / "cgroup.procs"

    @classmethod
    def or_skip(cls) -> None:
        """Skips the test where no such cgroup can be made."""
        try:
            one = cls()
            one._make()
            one._group.rmdir()
        except OSError as error:
            pytest.skip(f"no cgroup of version 1 with a memory limit can be made here: {error}")

    def take(self, pids: list[int], within: float, meanwhile: Callable[[], object] = lambda: None) -> int:
        """Put processes in until the kernel has killed one, then remove the cgroup; how many it has killed."""
        before = {pid: _group_of(pid) for pid in pids}
        self._make()
        try:
            for pid in pids:
                self._procs.write_text(str(pid))
            deadline = time.monotonic() + within
            while not (kills := self._kills()):
                assert time.monotonic() < deadline, (self._group / "memory.oom_control").read_text()
                meanwhile()
                time.sleep(0.5)
            return kills
        finally:
            self._remove(before)

    def _make(self) -> None:
        self._group.mkdir()
        (self._group / "memory.limit_in_bytes").write_text(str(_LIMIT))

    def _kills(self) -> int:
        told = dict(line.split() for line in (self._group / "memory.oom_control").read_text().splitlines())
        return int(told.get("oom_kill", 0))

    def _remove(self, before: dict[int, Path]) -> None:
        """Those that are left go back; one that was killed may take a moment to leave."""
        deadline = time.monotonic() + 30
        while members := self._procs.read_text().split():
            assert time.monotonic() < deadline, members
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    (before.get(int(pid), _CGROUPS) / "cgroup.procs").write_text(pid)
        self._group.rmdir()


def _group_of(pid: int) -> Path:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _CGROUPS / path.lstrip("/")
    return _CGROUPS
