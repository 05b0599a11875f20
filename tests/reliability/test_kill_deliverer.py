"""Kill -9 of the deliverer (F1): nothing is lost, order holds, a message is doubled only where Slack cannot be asked.

50 runs at each point with `bin/test --all`; 2 at the most telling one without. Chains of kills run side by side, each
with a seed of its own.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.chain import Chain

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

POINTS = (
    "after the fetch",
    "after the intent",
    "after the send",
    "after the answer",
    "after the log entry",
    "after the commit",
    "during a rebalance",
)
UNKNOWN = ("after the send", "after the answer")
"""Points at which the message is posted and the notification log does not have it."""

SIDE_BY_SIDE = 5


def sweep(points: tuple[str, ...], quick: str) -> Any:
    """Many kills at each point are slow tests, two at the point `quick` a fast one."""
    slow = [pytest.param(point, 50, marks=pytest.mark.slow) for point in points]
    return pytest.mark.parametrize(("point", "runs"), [pytest.param(quick, 2), *slow])


def run_chains(bootstrap: str, folder: Path, point: str, runs: int, **settings: Any) -> list[Chain]:
    """So many kills at a point; the chains when all is told."""
    side_by_side = min(SIDE_BY_SIDE, runs)

    def one(seed: int) -> Chain:
        with chain(bootstrap, folder, seed, **settings) as made:
            made.begin()
            for _ in range(runs // side_by_side):
                made.live_until_killed(point)
            made.finish()
            return made

    with ThreadPoolExecutor(side_by_side) as threads:
        return list(threads.map(one, range(side_by_side)))


@contextmanager
def chain(bootstrap: str, folder: Path, seed: int, **settings: Any) -> Iterator[Chain]:
    made = Chain(bootstrap, folder, seed, **settings)
    try:
        yield made
    finally:
        made.close()


@sweep(POINTS, "during a rebalance")
def test_f1_kill_9_loses_nothing_keeps_order_and_doubles_nothing(
    broker: Any, tmp_path: Path, point: str, runs: int
) -> None:
    """With the right to look messages up: also those of unknown outcome are not doubled."""
    chains = run_chains(broker.bootstrap, tmp_path, point, runs)
    assert sum(one.kills for one in chains) == runs
    for one in chains:
        verdict = one.verdict()
        assert (verdict.lost, verdict.out_of_order, dict(verdict.doubled)) == ([], [], {}), f"seed {one.seed}"


@sweep(("after the intent", "after the send"), "after the intent")
def test_f1_under_silences_that_come_and_go_nothing_is_notified_again_and_nothing_is_lost(
    broker: Any, tmp_path: Path, point: str, runs: int
) -> None:
    chains = run_chains(broker.bootstrap, tmp_path, point, runs, silences=True)
    for one in chains:
        verdict = one.verdict()
        assert (verdict.lost, verdict.out_of_order, dict(verdict.doubled)) == ([], [], {}), f"seed {one.seed}"
        assert verdict.told_under_silence == [], f"seed {one.seed}"
    assert any(one.was_silent() for one in chains), "no incident was silenced from its first to its last change"


@sweep(UNKNOWN, "after the send")
def test_f1_without_the_right_to_look_up_each_kill_doubles_one_message_at_most(
    broker: Any, tmp_path: Path, point: str, runs: int
) -> None:
    chains = run_chains(broker.bootstrap, tmp_path, point, runs, may_look_up=False)
    for one in chains:
        verdict = one.verdict()
        assert (verdict.lost, verdict.out_of_order) == ([], []), f"seed {one.seed}"
        assert sum(verdict.doubled.values()) <= one.kills
        # Two kills may meet the same incident; one kill never gives two messages.
        assert all(count <= one.kills for count in verdict.doubled.values())
    assert sum(sum(one.verdict().doubled.values()) for one in chains) > 0, "the fault had no effect"
