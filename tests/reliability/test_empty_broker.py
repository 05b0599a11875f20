"""The broker is replaced by an empty one at the same address while an incident is open.

Everything that Kafka kept is gone: input, incidents, the notification log, configuration, groups and their offsets.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kafka.errors import KafkaError

from detectors.incident import Transition
from tests.e2e.harness import Installation
from tests.embedded.broker import Broker
from tests.fake_slack.server import SlackServer
from tests.reliability.checkpoint_lines import completed, hung
from tests.reliability.deliverer import Deliverer, configuration
from tests.reliability.history import judge, shows

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

_WITHIN_S = 400.0


class World:
    """A broker that can be replaced, the job, its deliverer and Slack; an orchestrator starts what has ended."""

    def __init__(self, folder: Path, exits: ExitStack) -> None:
        self.broker = exits.enter_context(Broker())
        self.here = Installation(self.broker.bootstrap, folder, "empty", {"heartbeat": True})
        self.here.create_inputs()
        self.slack = exits.enter_context(SlackServer())
        self._folder = folder / "deliverer"
        self._folder.mkdir()
        channel = self.slack.channel_id("flink-alerts")
        self._told = configuration(self.here.bootstrap, self.here.prefix, self.slack.base_url, channel=channel)
        self._deliverer: Deliverer | None = None
        exits.callback(self.here.job.kill)
        exits.callback(self._end)
        self.starts = {"job": 0, "deliverer": 0}
        self._keep_running()

    def replace_broker(self) -> None:
        """Killed, its data wiped, an empty one at its address; the shippers' topics are made again."""
        self.broker.replace()
        self.here.create_inputs()

    def until(self, met: object, what: str) -> None:
        """Waits, and starts again what has ended with an error, as an orchestrator does."""
        assert callable(met)
        deadline = time.monotonic() + _WITHIN_S
        while not met():
            assert time.monotonic() < deadline, f"{what}:\n{self.here.job.log_tail()}\n{self._log()}"
            self._keep_running()
            time.sleep(0.2)

    def said(self, cluster: str) -> list[Transition]:
        """Everything that Kafka has of one cluster; nothing while its topics are not there."""
        try:
            return [t for t in self.here.transitions() if t.cluster == cluster]
        except KafkaError:
            return []

    def _keep_running(self) -> None:
        if self.here.job.exit_status() is not None or not self.starts["job"]:
            if self.starts["job"]:
                assert self.here.job.exit_status() == 1
                log.info("the job ended: %s", self.here.job.log_tail(1))
            self.starts["job"] += 1
            self.here.job.start()
        if self._deliverer is None or self._deliverer.ended():
            if self._deliverer is not None:
                log.info("the deliverer ended: %s", self._deliverer.log_tail(1))
            self.starts["deliverer"] += 1
            self._deliverer = Deliverer(self._folder, self._told)

    def _end(self) -> None:
        if self._deliverer is not None:
            self._deliverer.kill()

    def _log(self) -> str:
        return self._deliverer.log_tail(10) if self._deliverer is not None else ""


@contextmanager
def world(folder: Path) -> Iterator[World]:
    with ExitStack() as exits:
        yield World(folder, exits)


def now_ms() -> int:
    return int(time.time() * 1000)


def test_an_empty_broker_at_the_same_address_ends_no_incident_and_repeats_no_message(tmp_path: Path) -> None:
    with world(tmp_path) as it:
        here = it.here
        it.until(lambda: "the first batch is finished" in here.job.log.read_text(), "up")
        here.send(hung("prod", now_ms()))
        it.until(lambda: it.said("prod"), "opened")
        before = it.said("prod")
        published = {json.loads(v)["hash"] for v in here.values("config") if b'"hash"' in v}
        it.until(lambda: shows(it.slack.parents()).get(before[0].incident) == before[-1].seq, "told")
        starts = dict(it.starts)

        it.replace_broker()
        it.until(lambda: [t for t in it.said("flinkwatch") if t.cause == "unread_records_lost"], "the gap is said")
        here.send([*completed("prod", now_ms()), *hung("other", now_ms())])
        it.until(lambda: [t for t in it.said("prod") if t.transition == "resolved"], "resolved")
        it.until(lambda: it.said("other"), "another incident")
        after = it.said("prod")
        assert {t.incident for t in after} == {before[0].incident}
        assert [t.seq for t in after] == list(range(before[-1].seq + 1, before[-1].seq + 1 + len(after)))
        assert {json.loads(v)["hash"] for v in here.values("config") if b'"hash"' in v} >= published
        written = [*before, *here.transitions()]

        def verdict_is_final() -> bool:
            return not judge(written, list(it.slack.calls), it.slack.parents()).lost

        it.until(verdict_is_final, "everything is told")
        verdict = judge(written, list(it.slack.calls), it.slack.parents())
        log.info("starts before %s, after %s; %d transitions, %d calls", starts, it.starts, len(written), verdict.calls)
        assert (verdict.out_of_order, dict(verdict.doubled)) == ([], {}), verdict
