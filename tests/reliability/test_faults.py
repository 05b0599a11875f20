"""Faults around the deliverer: an orderly end at a bad moment (F2), two of them by mistake and a frozen one (F14)."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_slack.server import Call
from tests.reliability.chain import Chain
from tests.reliability.deliverer import END_S, SESSION_MS
from tests.reliability.history import shows
from tests.unit.sinks.samples import make_transition

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]


@pytest.fixture
def chain(broker: Any, tmp_path: Path) -> Iterator[Chain]:
    made = Chain(broker.bootstrap, tmp_path, seed=14)
    made.begin()
    yield made
    made.close()


def open_incidents(chain: Chain, count: int) -> None:
    for number in range(count):
        chain.tell(make_transition(incident=f"one of many {number}"))


def test_f2_sigterm_while_a_message_is_on_its_way_drains_and_doubles_nothing(chain: Chain) -> None:
    """The signal comes when Slack has taken the fifth message and has not answered: all twenty are told, once."""
    deliverer = chain.start()

    def at_the_fifth(_: Call) -> None:
        if chain.told() == 5:
            os.kill(deliverer.pid, signal.SIGTERM)
            time.sleep(0.5)

    chain.slack.on_call = at_the_fifth
    open_incidents(chain, 20)
    assert deliverer.ended(END_S)
    assert deliverer.exit_status() == 0, deliverer.log_tail()
    assert len(shows(chain.slack.parents())) == 20
    verdict = chain.finish()
    assert (verdict.lost, dict(verdict.doubled), verdict.edited_again) == ([], {}, 0)


def test_f2_sigterm_while_slack_limits_ends_in_time_and_the_next_start_tells_the_rest(chain: Chain) -> None:
    deliverer = chain.start()
    chain.slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "60"})
    open_incidents(chain, 5)
    chain.wait_for(lambda: chain.told() == 1, deliverer)
    assert deliverer.terminate(within=END_S) == 0, deliverer.log_tail()
    assert shows(chain.slack.parents()) == {}
    verdict = chain.finish()
    assert (verdict.lost, dict(verdict.doubled)) == ([], {})


def test_f14_two_deliverers_by_mistake_tell_each_incident_once(chain: Chain) -> None:
    """While a second one joins, works, and goes."""
    first, seconds = chain.start(), 3
    for _ in range(seconds):
        chain.say(10)
        second = chain.start()
        told = len(chain.slack.calls)
        chain.say(10)
        chain.wait_for(lambda told=told: len(chain.slack.calls) > told, first)
        time.sleep(1)
        chain.say(10)
        second.terminate()
    verdict = chain.finish(first)
    assert (verdict.lost, verdict.out_of_order, dict(verdict.doubled)) == ([], [], {})


def test_f14_a_deliverer_that_was_frozen_tells_nothing_that_its_successor_has_told(chain: Chain) -> None:
    """Frozen with ten incidents in hand until the group has given its partitions away, as a paused machine is."""
    frozen = chain.start(session_ms=10_000)
    chain.slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "2"}, times=2)
    open_incidents(chain, 10)
    chain.wait_for(lambda: chain.told() >= 1, frozen)
    os.kill(frozen.pid, signal.SIGSTOP)
    successor = chain.start()
    chain.wait_for(lambda: len(shows(chain.slack.parents())) == 10, successor)
    os.kill(frozen.pid, signal.SIGCONT)
    time.sleep(4)
    verdict = chain.finish(successor)
    assert (verdict.lost, verdict.out_of_order, dict(verdict.doubled)) == ([], [], {})


@pytest.mark.parametrize(
    "sessions", [pytest.param(4, id="4 sessions"), pytest.param(60, id="60 sessions", marks=pytest.mark.slow)]
)
def test_f14_a_deliverer_that_stands_still_alone_goes_on_where_it_was(chain: Chain, sessions: int) -> None:
    """SIGSTOP for many sessions of the group (with the product's 10 s, 60 are 10 minutes); nobody else has its work."""
    frozen = chain.start()
    open_incidents(chain, 10)
    chain.wait_for(lambda: chain.told() >= 3, frozen)
    os.kill(frozen.pid, signal.SIGSTOP)
    chain.say(5)
    time.sleep(sessions * SESSION_MS / 1000)
    chain.say(5)
    os.kill(frozen.pid, signal.SIGCONT)
    verdict = chain.finish(frozen)
    assert (verdict.lost, verdict.out_of_order, dict(verdict.doubled)) == ([], [], {})


def test_the_notification_log_deleted_under_a_running_deliverer_is_made_again(chain: Chain) -> None:
    """What it knows is written into the new topic, so that the next deliverer goes on without looking anything up."""
    deliverer = chain.start()
    chain.say(10)
    chain.wait_for(lambda: not chain.verdict().lost, deliverer)
    chain.delete_notification_log()
    chain.say(10)
    chain.wait_for(lambda: not chain.verdict().lost, deliverer)
    assert "notification log was deleted" in deliverer.log_tail(1000)
    assert deliverer.terminate() == 0, deliverer.log_tail()
    looked = chain.told("conversations.history")
    chain.say(10)
    verdict = chain.finish()
    assert (verdict.lost, verdict.out_of_order, dict(verdict.doubled)) == ([], [], {})
    assert chain.told("conversations.history") == looked
