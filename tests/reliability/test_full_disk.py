"""The disk under the job's files is full for a while: the process waits, says so, and goes on.

Needs the right to mount a tmpfs: root, and not in every container.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.reliability.job_chain import JobChain
from tests.reliability.test_kill_job import judge
from tests.reliability.test_processes import advance, lines, readiness

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

_WITHIN_S = 400.0
_BLOCK = 4_096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 80 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(folder: Path) -> Path:
    """A file that takes all the room there is."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass
    assert shutil.disk_usage(folder).free < _BLOCK
    return filler


@pytest.mark.parametrize("what", ["checkpoint", "temporary"])
def test_a_full_disk_is_waited_out(installation: Callable[..., Installation], small_disk: Path, what: str) -> None:
    """In the middle of an incident; the same process, and the same changes as in a replay."""
    (small_disk / "tmp").mkdir()
    places: dict[str, dict[str, object]] = {
        "checkpoint": {"checkpoint": str(small_disk / "checkpoint")},
        "temporary": {"spark": {"spark.local.dir": str(small_disk / "tmp")}},
    }
    chain = JobChain(lambda: installation(**places[what]))
    here = chain.here
    here.job.start()
    advance(chain)
    pid, filler = here.job.pid, fill(small_disk)
    chain.send()
    chain.kills += 1
    here.wait_for(lambda: "No space left" in readiness(here), _WITHIN_S)
    filler.unlink()
    expected = len(chain.expected())
    here.wait_for(lambda: len(here.transitions()) >= expected, _WITHIN_S)
    advance(chain)
    assert here.job.pid == pid
    assert here.job.terminate() == 0
    assert [line for line in lines(here) if "No space left" in line.get("reason", "")]
    judge(chain)
