"""`bin/demo`, as a user runs it: the alert comes, the summary says so, and nothing is left running."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

PROJECT = Path(__file__).parents[2]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.demo", *arguments],
        cwd=PROJECT,
        env={**os.environ, "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def descendants(pid: int) -> set[int]:
    """Every process below `pid`, in whatever session or group."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found = {pid}
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pids: set[int]) -> set[int]:
    return {
        p for p in pids if Path(f"/proc/{p}").exists() and "\nState:\tZ" not in Path(f"/proc/{p}/status").read_text()
    }


def test_the_alert_comes_and_is_summed_up() -> None:
    demo = start("--speed", "100")
    output, _ = demo.communicate(timeout=800)
    assert demo.returncode == 0, output
    assert "late_barrier_acks" in output
    assert "tm-2" in output
    assert "after the record that confirmed the cause" in output
    assert "/metrics" in output


def test_ctrl_c_leaves_nothing_running() -> None:
    demo = start("--keep")
    deadline = time.monotonic() + 600
    started: set[int] = set()
    # In the middle of everything: broker, job and its JVM are up.
    while len(started) < 4 and time.monotonic() < deadline:
        started |= descendants(demo.pid)
        time.sleep(0.2)
    assert len(started) >= 4
    demo.send_signal(signal.SIGINT)
    assert demo.wait(300) == 130
    deadline = time.monotonic() + 60
    while alive(started):
        assert time.monotonic() < deadline, "still running"
        time.sleep(0.1)


def test_an_unknown_scenario_names_those_there_are() -> None:
    demo = start("no-such-scenario")
    output, _ = demo.communicate(timeout=800)
    assert demo.returncode == 2
    assert "late-barrier-acks" in output
