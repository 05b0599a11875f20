"""Faults of the job: kill -9 (F1), SIGTERM in the middle of a batch (F2), no broker (F3): it says what replay says."""

import logging
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from detectors.incident import decode_transition
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.e2e.test_job import essence
from tests.embedded.broker import Broker
from tests.reliability.job_chain import JobChain

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(7_200)]

POINTS = (
    "after the fetch",
    "in the state update",
    "before the state commit",
    "after the output",
    "after the state commit",
)
SWEEPS = [
    pytest.param(("before the state commit",), 1, id="once"),
    pytest.param(POINTS, 10, id="10", marks=pytest.mark.slow),
]


def judge(chain: JobChain) -> Counter[tuple[str, int]]:
    """Compares with replay; how often each transition stands in Kafka."""
    said, expected = chain.here.transitions(), chain.expected()
    assert essence(said) == essence(expected)
    values = [decode_transition(value) for value in chain.here.values("incidents")]
    # A batch that runs again says the same: whoever reads the newest of a number, or each number once, is right.
    assert len({(t.incident, t.seq, t.summary, t.transition) for t in values}) == len(said)
    return Counter((t.incident, t.seq) for t in values)


@pytest.mark.parametrize(("points", "runs"), SWEEPS)
def test_f1_kill_9_of_the_job_loses_nothing_and_changes_nothing(
    installation: Callable[..., Installation], points: tuple[str, ...], runs: int
) -> None:
    """The same incidents with the same numbers as replay, whatever the point; a record is written twice at most."""
    chain = JobChain(installation)
    for _ in range(runs):
        for point in points:
            chain.live_until(point)
    chain.finish()
    written = judge(chain)
    assert max(written.values()) <= 2
    doubled = sum(count - 1 for count in written.values())
    log.info(
        "%d kills, %d of them between output and commit; %d transitions, %d written twice",
        chain.kills,
        chain.not_committed,
        len(written),
        doubled,
    )


@pytest.mark.slow
def test_f2_sigterm_in_the_middle_of_a_batch_lets_it_finish_and_doubles_nothing(
    installation: Callable[..., Installation],
) -> None:
    """F2: the signal comes when state has changed and nothing is said; the next start has nothing to say again."""
    chain = JobChain(installation)
    chain.live_until("in the state update", signal.SIGTERM)
    assert essence(chain.here.transitions()) == essence(chain.expected())
    chain.finish()
    assert set(judge(chain).values()) == {1}


@pytest.mark.slow
def test_f3_the_job_waits_out_ten_seconds_without_a_broker(tmp_path: Path) -> None:
    """Killed while the job runs, started again with its data: the same process goes on and says what is missing."""
    with Broker() as broker:
        chain = JobChain(lambda: Installation(broker.bootstrap, tmp_path, "outage", {}))
        try:
            chain.here.job.start()
            chain.send()
            chain.here.wait_for(lambda: len(chain.here.transitions()) >= 1)
            pid = chain.here.job.pid
            broker.kill()
            time.sleep(10)
            broker.restart()
            for _ in range(2):
                chain.kills += 1
                chain.send()
            chain.here.wait_for(lambda: len(chain.here.transitions()) >= len(chain.expected()))
            assert chain.here.job.pid == pid
            assert chain.here.job.terminate() == 0
            judge(chain)
        finally:
            chain.here.job.kill()
