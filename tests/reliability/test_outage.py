"""Slack is down for an hour while 200 incidents open: the stream does not feel it, and all are told afterwards."""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from detectors.incident import Transition
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.embedded.job_process import JobProcess, free_port
from tests.fake_slack.server import TOKEN, SlackServer
from tests.reliability.history import judge, shows
from tests.reliability.job_chain import of_another, portions
from tests.unit.sinks.delivery.test_delivery import World
from tests.unit.sinks.samples import make_transition

COUNT = 200
HOUR_S = 3_600


@pytest.mark.parametrize("digest_above", [1_000, 30], ids=["one by one", "digest"])
def test_after_an_hour_without_slack_all_is_told_in_few_calls(
    monkeypatch: pytest.MonkeyPatch, digest_above: int
) -> None:
    """Time is the dispatcher's clock; the calls are real: refused connections for an hour, then answers."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as first:
        world = World(first, digest_above=digest_above)
    opened = [make_transition(incident=f"incident {number}") for number in range(COUNT)]
    for one in opened:
        world.say(one)
        world.settle(HOUR_S / COUNT)
    with SlackServer(port=int(first.url.rsplit(":", 1)[1].strip("/"))) as back:
        # The pace is a message a second and the longest pause between two tries is a minute.
        for _ in range(COUNT * 2):
            world.settle(2)
        own = shows(back.parents())
        folded = {one.incident for one in opened if _state(world, one) == "folded"}
        assert len(back.calls) <= COUNT * 1.2
        assert {one.incident for one in opened} == {name for name in own if name.startswith("incident")} | folded
        verdict = judge([one for one in opened if one.incident not in folded], back.calls, back.parents())
        assert (verdict.lost, verdict.out_of_order, dict(verdict.doubled)) == ([], [], {})
        assert bool(folded) == (digest_above < COUNT)
        named = json.dumps([message.blocks for message in back.parents()])
        assert not folded or "digest" in " ".join(own), named


def _state(world: World, one: Transition) -> str:
    entry = world.log_entry(one.incident)
    return "" if entry is None else entry.state


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_the_streams_batches_take_no_longer_while_slack_is_down(
    installation: Callable[..., Installation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job and delivery in one process, 200 incidents with Slack and 200 without; a batch's time is read off the
    checkpoint.
    """
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    here = installation()
    here.create_inputs()
    port = free_port()
    slack = {"enabled": True, "channel": "flink-alerts", "base_url": f"http://127.0.0.1:{port}/api/", "charts": False}
    here.job = JobProcess(here.folder, {**here.configuration, "sinks": {"slack": slack}})
    with SlackServer(port=port) as server:
        here.job.start()
        here.job.await_ready()
        first = _newest(here)
        _open_incidents(here, "with", 0)
        here.wait_for(lambda: len(here.transitions()) >= COUNT)
        here.wait_for(lambda: len(shows(server.parents())) > 20)
        with_slack = _batch_times(here, first)
    second = _newest(here)
    _open_incidents(here, "without", 1)
    here.wait_for(lambda: len(here.transitions()) >= 2 * COUNT)
    without = _batch_times(here, second)
    assert here.job.terminate() == 0
    assert statistics.median(without) <= 1.5 * statistics.median(with_slack), (with_slack, without)


def _open_incidents(here: Installation, name: str, day: int) -> None:
    """All clusters fail at the same time, in some forty batches."""
    for record in portions()[0]:
        here.send(of_another(record, f"{name}-{number}", day) for number in range(COUNT))
        time.sleep(0.5)


def _newest(here: Installation) -> int:
    return max((int(file.name) for file in _committed(here)), default=-1)


def _committed(here: Installation) -> list[Path]:
    return [file for file in (here.folder / "checkpoint" / "commits").iterdir() if file.name.isdigit()]


def _batch_times(here: Installation, after: int) -> list[float]:
    """Seconds from plan to commit of each batch after number `after`, that is still in the checkpoint."""
    offsets = here.folder / "checkpoint" / "offsets"
    return [
        file.stat().st_mtime - (offsets / file.name).stat().st_mtime
        for file in _committed(here)
        if int(file.name) > after and (offsets / file.name).exists()
    ]
