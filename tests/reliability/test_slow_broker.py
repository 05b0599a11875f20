"""A broker that takes 5 s for every fetch: everything is said, in order and once, only later."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinks.delivery.service import Delivery
from tests.e2e.harness import Installation as JobInstallation
from tests.e2e.test_delivery import Installation, get
from tests.e2e.test_job import essence, recorded, replayed
from tests.fake_slack.server import TOKEN
from tests.reliability.history import judge
from tests.reliability.slow_broker import SlowBroker
from tests.unit.sinks.samples import make_transition

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3_600)]

_DELAY_S = 5.0
_WITHIN_S = 200.0


@pytest.fixture(scope="module")
def slow() -> Iterator[SlowBroker]:
    with SlowBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def quick_at_the_end(slow: SlowBroker) -> Iterator[None]:
    yield
    slow.proxy.delay_s = 0.0


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not check():
        assert time.monotonic() < deadline
        threading.Event().wait(0.2)


def test_delivery_tells_everything_once_and_becomes_ready(slow: SlowBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    here = Installation(slow.bootstrap)
    slow.proxy.delay_s = _DELAY_S
    delivery: Delivery = here.delivery()
    delivery.start()
    # What is over before the notification log begins is history and not told, so the first is told before the others.
    produced = [make_transition(incident="the first")]
    here.say(*produced)
    eventually(lambda: not judge(produced, here.slack.calls, here.slack.parents()).lost)
    incidents = ["the first", *(f"incident {number}" for number in range(5))]
    for seq, change in enumerate(("opened", "updated", "resolved"), 1):
        step = [
            make_transition(incident=one, seq=seq, transition=change)
            for one in incidents
            if seq > 1 or one != "the first"
        ]
        here.say(*step)
        produced += step
    eventually(lambda: not judge(produced, here.slack.calls, here.slack.parents()).lost)
    eventually(lambda: get(delivery.page.port, "/-/ready")[0] == 200)
    assert get(delivery.page.port, "/metrics")[0] == 200
    assert slow.proxy.delayed > 3
    delivery.stop()
    verdict = judge(produced, here.slack.calls, here.slack.parents())
    assert (verdict.lost, verdict.out_of_order, verdict.doubled) == ([], [], {})
    here.close()


def test_the_job_says_what_replay_says(slow: SlowBroker, tmp_path: Path) -> None:
    here = JobInstallation(slow.bootstrap, tmp_path, "slowly", {})
    here.create_inputs(partitions=1)
    stored = here.send(recorded("checkpoint-declined"))
    expected = replayed(stored, here.metrics)
    before, slow.proxy.delay_s = slow.proxy.delayed, _DELAY_S
    here.job.start()
    # Looking takes as long as anybody's fetches.
    try:
        here.wait_for(lambda: len(here.transitions()) >= len(expected), _WITHIN_S)
        assert slow.proxy.delayed > before
        assert here.job.terminate() == 0
    finally:
        here.job.kill()
    assert essence(here.transitions()) == essence(expected)
