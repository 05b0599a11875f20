"""`flinkwatch rebuild`: a checkpoint that is gone is filled again from Kafka, and no one is notified twice."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from detectors.events.event import Record
from streaming.configuration.settings import Settings
from streaming.job.checkpoint.guard import check_layout
from streaming.job.checkpoint.lock import CheckpointLock
from streaming.job.preflight import check_topics, starting_offsets
from streaming.job.query import start_query
from tests.e2e.harness import Installation
from tests.embedded.broker import Broker
from tests.fake_slack.server import SlackServer
from tests.reliability.damage import spark_session
from tests.reliability.deliverer import Deliverer, configuration
from tests.reliability.history import judge, shows
from tests.reliability.job_chain import portions

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

_WITHIN_S = 300.0


class Job:
    """The query of one installation in a session that outlives it, since each start of a JVM takes long."""

    def __init__(self, spark: SparkSession, here: Installation) -> None:
        self._spark, self.here = spark, here
        self.settings = Settings.model_validate(here.configuration)
        self.checkpoint = Path(self.settings.streaming.checkpoint)

    def life(self, records: list[Record], written: int) -> None:
        """Records come, the query starts, and ends when so many transitions are written and all is committed."""
        offsets = starting_offsets(self.settings, check_topics(self.settings))
        self.here.send(records)
        check_layout(self._spark, self.settings)
        query = start_query(self._spark, self.settings, offsets)
        try:
            eventually(lambda: len(self.here.transitions()) >= written)
            eventually(lambda: not query.status["isTriggerActive"] and not query.status["isDataAvailable"])
        finally:
            query.stop()

    def rebuild(self, *arguments: str) -> tuple[int, str]:
        """Exit status and output of the command."""
        command = [sys.executable, "-m", "streaming", "rebuild", "--config", str(self.here.folder / "flinkwatch.yaml")]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=900)
        return done.returncode, done.stdout + done.stderr


def eventually(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_checkpoint_is_rebuilt_in_the_middle_of_an_incident_and_slack_shows_one_message(
    broker: Broker, tmp_path: Path
) -> None:
    """Once from a checkpoint that can be read, once from one that is lost altogether; refused while it is in use."""
    here = Installation(broker.bootstrap, tmp_path, "rebuild", {})
    here.create_inputs()
    opened, updated, resolved = portions()
    with spark_session() as spark, SlackServer() as slack:
        job = Job(spark, here)
        job.life(opened, written=1)
        folder = tmp_path / "deliverer"
        folder.mkdir()
        told = configuration(here.bootstrap, here.prefix, slack.base_url, channel=slack.channel_id("flink-alerts"))
        deliverer = Deliverer(folder, told)
        try:
            eventually(lambda: len(shows(slack.parents())) == 1)
            with CheckpointLock(job.checkpoint).held(0):
                status, said = job.rebuild()
                assert status == 1
                assert "is in use by another flinkwatch" in said
            assert job.rebuild()[0] == 0
            assert list(job.checkpoint.glob("before-rebuild-*/offsets/0"))
            job.life(updated, written=2)
            shutil.rmtree(job.checkpoint)
            assert job.rebuild()[0] == 0
            job.life(resolved, written=3)
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


def test_an_incident_that_began_before_the_records_that_are_read_ends_as_stale(broker: Broker, tmp_path: Path) -> None:
    """Its message would stay open for ever otherwise; the command names it."""
    here = Installation(broker.bootstrap, tmp_path, "rebuildlost", {})
    here.create_inputs()
    opened, *_ = portions()
    with spark_session() as spark:
        job = Job(spark, here)
        job.life(opened, written=1)
        status, said = job.rebuild("--from", "5m")
        assert status == 0
        first, last = here.transitions()
        assert (last.incident, last.seq, last.transition) == (first.incident, 2, "stale")
        assert first.incident in said
