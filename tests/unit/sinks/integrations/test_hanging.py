"""A receiver behind a proxy that hangs: each call ends in time, nothing is lost or doubled, other receivers go on."""

import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from sinks.contract.outcome import RetryAfter, Unknown
from sinks.delivery.service import Delivery
from sinks.integrations.calls import HangingError, classify_transport, within
from sinks.integrations.http_post import post_json
from sinks.settings import Sinks
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.delivery.test_delivery import ACCESS, FIRST, OPENED, UPDATED, World
from tests.unit.sinks.hanging_proxy import HOW, HangingProxy, How
from tests.unit.sinks.memory_kafka import TOPICS, MemoryKafka
from tests.unit.sinks.receiver import Receiver
from tests.unit.sinks.samples import make_transition

# Each call has 2 s; a busy machine adds its own.
BOUND_S = 30.0


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as server:
        yield server


def world_behind(slack: SlackServer, proxy: HangingProxy) -> World:
    channel = slack.channel_id("flink-alerts")
    return World(slack, now=time.time(), channel=channel, thread_updates=False, base_url=proxy.url)


def wait_for(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("how", HOW)
def test_a_message_whose_answer_hangs_in_a_proxy_is_looked_up_and_not_doubled(slack: SlackServer, how: How) -> None:
    with HangingProxy(slack.base_url, how) as proxy:
        world = world_behind(slack, proxy)
        world.say(OPENED, make_transition(incident="other"))
        began = time.monotonic()
        world.settle()
        assert time.monotonic() - began < BOUND_S
        world.say(UPDATED)
        for _ in range(5):
            world.settle(10)
        shown = sorted(m.metadata["event_payload"]["seq"] for m in slack.parents())
        assert shown == [1, 2]
        assert world.methods().count("chat.postMessage") == 2
        assert world.kafka.committed[FIRST] == 3


@pytest.mark.parametrize("how", ["answers nothing", "answers byte by byte"])
def test_a_look_up_that_hangs_in_a_proxy_is_made_again(slack: SlackServer, how: How) -> None:
    """The first call is lost, and so is the look whether it arrived."""
    with HangingProxy(slack.base_url, how, times=2) as proxy:
        world = world_behind(slack, proxy)
        world.say(OPENED)
        began = time.monotonic()
        world.settle()
        for _ in range(5):
            world.settle(10)
        assert time.monotonic() - began < 2 * BOUND_S
        assert len(slack.parents()) == 1
        assert world.methods().count("chat.postMessage") == 1


def test_while_slack_hangs_other_receivers_go_on(slack: SlackServer) -> None:
    kafka = MemoryKafka()
    for number in range(20):
        one = make_transition(incident=f"incident {number}")
        kafka.write(TOPICS.incidents, one.incident, msgspec.json.encode(one))
    hanging = HangingProxy(slack.base_url, "answers byte by byte", times=1_000_000, lets_through=False)
    with hanging as proxy, Receiver() as receiver:
        settings = {
            "slack": {"enabled": True, "channel": "flink-alerts", "base_url": proxy.url, "timeout": "1s"},
            "webhook": {"enabled": True, "url": receiver.url},
            "prometheus": {"enabled": False},
        }
        delivery = Delivery(ACCESS, TOPICS, Sinks.model_validate(settings), clients=kafka)
        delivery.start()
        try:
            wait_for(lambda: kafka.group("webhook").get(FIRST) == 20)
            told = b" ".join(received.body for received in receiver.received)
        finally:
            proxy.closing.set()
            delivery.stop()
    assert len(receiver.received) == 20
    assert all(f'"incident {number}"'.encode() in told for number in range(20))
    assert slack.parents() == []


@pytest.mark.parametrize("how", HOW)
def test_a_webhook_whose_answer_hangs_ends_in_bounded_time(how: How) -> None:
    with Receiver() as receiver, HangingProxy(receiver.url, how) as proxy:
        began = time.monotonic()
        outcome = post_json(proxy.url, b"{}", {}, 0.5)
        assert time.monotonic() - began < BOUND_S
    if how == "answers nothing":
        assert outcome == Unknown("no response within the timeout", "contextDeadlineExceeded")
    else:
        assert isinstance(outcome, Unknown)


def test_calls_that_hang_for_ever_do_not_pile_up() -> None:
    release = threading.Event()
    calls = []

    def hang() -> None:
        calls.append(1)
        release.wait(BOUND_S)

    for _ in range(4):
        with pytest.raises(TimeoutError):
            within("a receiver", 0.01, hang)
    with pytest.raises(HangingError, match="4 earlier calls"):
        within("a receiver", 0.01, hang)
    assert len(calls) == 4
    assert within("another receiver", BOUND_S, lambda: "ok") == "ok"
    release.set()

    def answers() -> bool:
        try:
            return within("a receiver", BOUND_S, lambda: True)
        except HangingError:
            return False

    wait_for(answers)


def test_a_call_that_was_not_made_is_made_later_and_not_looked_up() -> None:
    assert isinstance(classify_transport(HangingError("4 earlier calls still wait for a response")), RetryAfter)


def test_an_error_of_the_call_is_the_callers() -> None:
    def fail() -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        within("a receiver", BOUND_S, fail)
