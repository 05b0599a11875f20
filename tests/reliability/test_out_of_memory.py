"""The kernel's OOM killer takes one process of flinkwatch: it goes on, as after kill -9."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.e2e.test_job import recorded
from tests.embedded.broker import Broker
from tests.reliability.chain import START_S, Chain
from tests.reliability.job_chain import SCENARIO
from tests.reliability.out_of_memory import Starved
from tests.reliability.processes import jvm_of, workers_of
from tests.reliability.test_kill_job import judge
from tests.reliability.test_processes import advance, lines, restarts, running
from tests.reliability.test_topics import filler

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

_WITHIN_S = 300.0


def test_a_python_worker_and_then_the_jvm_taken_by_the_oom_killer_lose_nothing(
    installation: Callable[..., Installation],
) -> None:
    """The same process goes on; the line of the restart names signal 9 and memory."""
    Starved.or_skip()
    chain = running(installation)
    here, pid = chain.here, chain.here.job.pid

    # Lines that mean nothing, for the workers to have something to do.
    killed = Starved().take(workers_of(pid), _WITHIN_S, lambda: here.send(filler(recorded(SCENARIO), {0: 100})))
    advance(chain)
    assert here.job.pid == pid
    log.info("%d workers killed, restarts of the query: %d", killed, restarts(here))

    before = restarts(here)
    Starved().take([jvm_of(pid)], _WITHIN_S)
    here.wait_for(lambda: restarts(here) > before, _WITHIN_S)
    advance(chain)
    assert here.job.pid == pid
    assert restarts(here) == before + 1
    assert here.job.terminate() == 0
    judge(chain)
    said = [line["reason"] for line in lines(here) if line["event"] == "the query failed and is being restarted"]
    log.info("said: %s", said)
    assert "Spark's JVM was killed (signal 9)" in said[-1]
    assert "memory" in said[-1]
    assert not [line for line in lines(here) if "Traceback" in json.dumps(line)]


def test_a_deliverer_taken_by_the_oom_killer_loses_nothing_and_doubles_nothing(broker: Broker, tmp_path: Path) -> None:
    """Five times, at whatever it was doing."""
    Starved.or_skip()
    chain = Chain(broker.bootstrap, tmp_path, int(os.environ.get("FLINKWATCH_SEED", "0")))
    try:
        chain.begin()
        for _ in range(5):
            victim, told = chain.start(), len(chain.slack.calls)
            chain.say(3)
            chain.wait_for(lambda t=told: len(chain.slack.calls) > t, victim, within=START_S)  # type: ignore[misc]
            Starved().take([victim.pid], _WITHIN_S, chain.say)
            assert victim.ended(10)
            assert victim.exit_status() == -9, victim.log_tail()
        verdict = chain.finish()
        log.info(
            "%d transitions, %d calls, %d edits repeated", verdict.transitions, verdict.calls, verdict.edited_again
        )
        assert (verdict.lost, verdict.out_of_order, dict(verdict.doubled)) == ([], [], {}), verdict
    finally:
        chain.close()
