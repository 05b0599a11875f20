"""An older version of flinkwatch is replaced by this one while records arrive: nothing is lost and nothing repeated.

The older version is the commit or tag `FLINKWATCH_UPGRADE_FROM`, otherwise the newest tag. Without both the test is
skipped.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.harness import Installation
from tests.e2e.test_job import recorded, replayed
from tests.embedded.job_process import JobProcess

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PROJECT = Path(__file__).parents[2]


def git(*arguments: str) -> bytes:
    """The output of git, empty if it fails."""
    return subprocess.run(["git", "-C", str(PROJECT), *arguments], check=False, capture_output=True, timeout=60).stdout


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The source of the older version, which uses the jars and the Java of this one."""
    revision = os.environ.get("FLINKWATCH_UPGRADE_FROM") or git("describe", "--tags", "--abbrev=0").decode().strip()
    archive = git("archive", revision) if revision else b""
    if not archive:
        pytest.skip("no older version: there is no tag, and FLINKWATCH_UPGRADE_FROM names no commit")
    tree = tmp_path / "older"
    tree.mkdir()
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True, timeout=60)
    (tree / ".flinkwatch").symlink_to(PROJECT / ".flinkwatch")
    return tree


@pytest.mark.parametrize("ends", ["in order", "killed"])
def test_the_job_continues_the_incident_that_an_older_version_has_opened(
    ends: str, older: Path, installation: Callable[..., Installation]
) -> None:
    here = installation()
    here.create_inputs()
    records = recorded("late-barrier-acks")
    middle = next(i for i, r in enumerate(records) if b"Checkpoint 7 of job" in (r.value or b"")) + 1
    # Without the safe path Python would import the code of the working directory.
    environment = {"PYTHONPATH": str(older), "PYTHONSAFEPATH": "1"}
    before = JobProcess(here.folder, here.configuration, "--no-deliver", environment=environment)
    stored = here.send(records[:middle])
    before.start()
    try:
        before.await_condition(lambda: len(here.transitions()) >= 1, 600)
        # They arrive while no job runs.
        stored += here.send(records[middle : middle + 100])
        if ends == "in order":
            assert before.terminate() == 0
    finally:
        before.kill()
    opened = here.transitions()[0]
    here.job.start()
    stored += here.send(records[middle + 100 :])
    expected = replayed(stored, here.metrics)
    here.wait_for(lambda: len(here.transitions()) >= len(expected))
    assert here.job.terminate() == 0
    found = here.transitions()
    assert {t.incident for t in found} == {opened.incident}
    assert [t.seq for t in found] == list(range(1, len(found) + 1))
    assert found[-1].cause == expected[-1].cause == "late_barrier_acks"
    assert {e.offset for t in found for e in t.evidence} == {e.offset for t in expected for e in t.evidence}
