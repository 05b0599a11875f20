"""Alertmanager and flinkwatch under the same faults, against the same stand-in for Slack.

    python -m pytest tests/reliability/test_beside_alertmanager.py --log-cli-level=INFO

repeats the table of docs/reliability.md. The half about Alertmanager is skipped where it is not installed
(Debian: prometheus-alertmanager); it is not asserted, since another version may do better: it is logged.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.reliability.alertmanager import GROUP_INTERVAL_S, PROGRAM, Alertmanager
from tests.reliability.chain import Chain
from tests.unit.sinks.samples import make_transition

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

log = logging.getLogger(__name__)

RUNS = 5
LIMITED = {"status": 429, "headers": {"Retry-After": "1"}, "error": "ratelimited"}
FAULTS = ("429 for a short incident", "kill -9 after the send, before the answer", "kill -9 a second after the answer")
needs_alertmanager = pytest.mark.skipif(PROGRAM is None, reason="prometheus-alertmanager is not installed")


class Told(NamedTuple):
    """What the channel shows of one incident in the end: messages that say that it began."""

    messages: int


def side_by_side(run: Callable[[Path], Told], folder: Path) -> list[int]:
    with ThreadPoolExecutor(RUNS) as threads:
        return [told.messages for told in threads.map(run, [folder / str(number) for number in range(RUNS)])]


def alertmanager_tells(fault: str, folder: Path) -> Told:
    one = Alertmanager(folder)
    try:
        one.start()
        if fault == FAULTS[0]:
            one.slack.fail_next("chat.postMessage", **LIMITED)
        one.kill_at_next_call = fault == FAULTS[1]
        one.alert("CheckpointOverdue")
        _until(lambda: len(one.slack.calls) >= 1)
        if fault == FAULTS[0]:
            # It ends before the next flush of its group.
            time.sleep(2)
            one.alert("CheckpointOverdue", ended=True)
        else:
            if fault == FAULTS[2]:
                time.sleep(1)
            else:
                _until(one.dead)
            one.kill()
            one.start()
            # Prometheus sends what still fires again.
            one.alert("CheckpointOverdue")
        time.sleep(2.5 * GROUP_INTERVAL_S)
        return Told(len(one.told("FIRING")) if one.slack.parents() else 0)
    finally:
        one.close()


def flinkwatch_tells(fault: str, bootstrap: str, folder: Path) -> Told:
    folder.mkdir()
    chain = Chain(bootstrap, folder, seed=0)
    try:
        if fault == FAULTS[0]:
            chain.slack.fail_next("chat.postMessage", **LIMITED)
        chain.begin()
        deliverer = chain.start()
        if fault == FAULTS[1]:
            chain.strike(deliverer)
        chain.tell(make_transition(incident="short"))
        _until(lambda: chain.told() >= 1)
        if fault == FAULTS[0]:
            time.sleep(2)
            chain.tell(make_transition(incident="short", seq=2, transition="resolved"))
        else:
            if fault == FAULTS[2]:
                time.sleep(1)
            deliverer.kill()
            deliverer = chain.start()
            time.sleep(2.5 * GROUP_INTERVAL_S)
        verdict = chain.finish(deliverer)
        assert (verdict.lost, verdict.out_of_order) == ([], [])
        return Told(1 + verdict.doubled["short"])
    finally:
        chain.close()


def _until(met: Callable[[], bool], within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("fault", FAULTS)
def test_flinkwatch_notifies_once(broker: Any, tmp_path: Path, fault: str) -> None:
    told = side_by_side(lambda folder: flinkwatch_tells(fault, broker.bootstrap, folder), tmp_path)
    log.info("flinkwatch, %s: messages of one incident in %d runs: %s", fault, RUNS, told)
    assert told == [1] * RUNS


@needs_alertmanager
@pytest.mark.parametrize("fault", FAULTS)
def test_what_alertmanager_notifies(tmp_path: Path, fault: str) -> None:
    """A measurement: it fails only when nothing could be measured."""
    told = side_by_side(lambda folder: alertmanager_tells(fault, folder), tmp_path)
    log.info("Alertmanager, %s: messages of one alert in %d runs: %s", fault, RUNS, told)
    assert len(told) == RUNS
