"""`flinkwatch rebuild`: a checkpoint that is gone is filled again from Kafka, and no one is notified twice."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.demo.slack_server import SlackServer
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.reliability.deliverer import Deliverer, configuration
from tests.reliability.history import judge, shows
from tests.reliability.job_chain import JobChain

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

_WITHIN_S = 300.0


def rebuild(here: Installation, *arguments: str) -> tuple[int, str]:
    """Its exit status and what it printed."""
    config = here.folder / "flinkwatch.yaml"
    command = [sys.executable, "-m", "streaming", "rebuild", "--config", str(config), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, done.stdout + done.stderr


def eventually(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_checkpoint_is_rebuilt_in_the_middle_of_an_incident_and_slack_shows_one_message(
    installation: Callable[..., Installation], tmp_path: Path
) -> None:
    """Once from a checkpoint that can be read, once from one that is lost altogether; refused while the job runs."""
    chain = JobChain(installation)
    here = chain.here
    checkpoint = here.folder / "checkpoint"
    with SlackServer() as slack:
        told = configuration(
            here.bootstrap, here.prefix, slack.base_url, channel=slack.channel_id("flink-alerts"), min_severity="info"
        )
        chain.finish(within=_WITHIN_S)
        chain.kills += 1
        deliverer = Deliverer(tmp_path, told)
        try:
            eventually(lambda: len(shows(slack.parents())) == 1)
            here.job.start()
            here.job.await_condition(lambda: "watching" in here.job.log.read_text(), _WITHIN_S)
            status, said = rebuild(here)
            assert status == 1
            assert "is in use by another flinkwatch" in said
            assert here.job.terminate() == 0
            assert rebuild(here)[0] == 0
            assert list(checkpoint.glob("before-rebuild-*/offsets/0"))
            chain.finish(within=_WITHIN_S)
            chain.kills += 1
            shutil.rmtree(checkpoint)
            assert rebuild(here)[0] == 0
            chain.finish(within=_WITHIN_S)
            written = here.transitions()
            assert [t.transition for t in written] == ["opened", "updated", "resolved"]
            assert [t.seq for t in written] == sorted({t.seq for t in written})
            eventually(lambda: max(shows(slack.parents()).values()) == written[-1].seq)
        finally:
            deliverer.kill()
        verdict = judge(written, list(slack.calls), slack.parents())
        assert not verdict.lost
        assert not verdict.out_of_order
        assert not verdict.doubled
