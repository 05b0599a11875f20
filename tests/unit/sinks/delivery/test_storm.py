"""A storm of incidents: bounded calls, bounded memory, nothing lost. Kafka in memory, a clock that is set by hand."""

import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from detectors.incident import Transition
from sinks.integrations.slack.message.blocks import Message
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.delivery.test_delivery import World, metric
from tests.unit.sinks.samples import make_transition

KINDS = ("checkpoint_overdue", "taskmanager_lost", "restart_storm")


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> World:
    return World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"), thread_updates=False)


def incident(number: int, **changes: Any) -> Transition:
    return make_transition(
        incident=f"i{number}",
        cluster=f"cluster-{number % 50}",
        cause=KINDS[number % 3],
        findings=[],
        **changes,
    )


def resolved(number: int, seq: int = 2) -> Transition:
    return incident(number, seq=seq, transition="resolved", ended_at=make_transition().at + 60_000)


def run(world: World, seconds: float, step: float = 0.5) -> None:
    """Lets time pass."""
    end = world.now + seconds
    while world.now < end:
        world.now += step
        for _ in range(1000):
            if not world.worker.poll_once():
                break


def own(world: World) -> set[str]:
    """The incidents that have a message of their own."""
    named = (message.metadata["event_payload"]["incident"] for message in world.slack.parents())
    return {name for name in named if not name.startswith("~")}


def digests(world: World) -> list[Any]:
    return [m for m in world.slack.parents() if m.metadata["event_payload"]["incident"].startswith("~")]


def counted(world: World) -> Counter[str]:
    """What the log says of each incident: told in a digest, or with a message."""
    found = Counter[str]()
    for partition in range(2):
        for key in dict(world.kafka.read_notification_log(partition)):
            name = (key or b"").decode().removeprefix("slack/")
            if not name.startswith("~"):
                entry = world.log_entry(name, partition)
                assert entry is not None
                found["digest" if entry.state == "folded" else entry.state] += 1
    return found


# 25 s of work for an idle processor.
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_incidents_in_a_minute_are_a_bounded_number_of_calls_and_none_is_lost(world: World) -> None:
    """The bound whatever comes: 60 posts and 50 edits a minute, and 10 of each at once. In this storm: 30 incidents get
    a message of their own, the digest is one, and is edited every 5 s.
    """
    numbers = count()
    tracemalloc.start()
    for _ in range(60):
        for number in (next(numbers) for _ in range(167)):
            world.say(incident(number), partition=number % 2)
        run(world, 1.0)
    total = next(numbers)
    assert total >= 10_000
    assert len(world.slack.calls) <= 60
    run(world, 60.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The topic itself is in this memory, too: 2.5 KB a record.
    written = sum(len(kept.value or b"") for log in world.kafka.logs.values() for kept in log)
    assert peak - written < 60e6
    assert len(world.dispatcher.outbox) < 100
    told = counted(world)
    assert set(told) == {"digest", "sent"}
    assert sum(told.values()) == total
    (digest,) = digests(world)
    assert f"{told['digest']:,}" in digest.text
    assert len(own(world)) == told["sent"] <= 60
    for number in range(total):
        world.say(resolved(number), partition=number % 2)
    run(world, 240.0)
    assert ": 0 open, " in digests(world)[0].text
    entries = [world.log_entry(f"i{number}", number % 2) for number in range(total)]
    assert all(entry is not None and entry.resolved for entry in entries)
    open_still = [m for m in world.slack.parents() if m not in digests(world) and "Resolved" not in m.text]
    assert open_still == []


def test_the_digest_is_edited_and_not_repeated(world: World) -> None:
    for number in range(200):
        world.say(incident(number))
        run(world, 0.5)
    assert len(digests(world)) == 1
    assert digests(world)[0].edited_ts is not None


def storm(world: World, size: int = 100) -> None:
    world.say(*(incident(number) for number in range(size)))
    run(world, 45.0)


def test_when_the_storm_is_over_what_is_still_open_gets_its_own_message(world: World) -> None:
    storm(world)
    folded = [n for n in range(100) if f"i{n}" not in own(world)]
    assert len(folded) > 30
    world.say(*(resolved(number) for number in folded[10:]))
    run(world, 120.0)
    assert {f"i{number}" for number in folded[:10]} <= own(world)
    assert not {f"i{number}" for number in folded[10:]} & own(world)
    assert len(digests(world)) == 1


def test_while_too_many_are_open_they_stay_in_the_digest(world: World) -> None:
    storm(world)
    before = own(world)
    run(world, 600.0)
    assert own(world) == before


def test_an_incident_of_a_digest_that_becomes_critical_gets_its_own_message(world: World) -> None:
    storm(world)
    number = next(n for n in range(100) if f"i{n}" not in own(world))
    world.say(incident(number, seq=2, transition="updated", severity="critical"))
    run(world, 5.0)
    assert f"i{number}" in own(world)


def test_critical_incidents_go_before_the_digest_as_long_as_the_channel_can_take_them(world: World) -> None:
    storm(world)
    world.say(incident(1000, severity="critical"))
    run(world, 5.0)
    assert "i1000" in own(world)


def test_a_restart_in_a_storm_goes_on_with_the_same_digest(world: World) -> None:
    storm(world)
    world.start()
    world.say(*(resolved(number) for number in range(100)))
    run(world, 120.0)
    (digest,) = digests(world)
    assert "0 open" in digest.text
    assert len(world.slack.parents()) == len(own(world)) + 1


def test_a_digest_that_was_deleted_is_told_anew(world: World) -> None:
    storm(world)
    world.slack.delete(digests(world)[0].ts)
    world.say(*(resolved(number) for number in range(50, 60)))
    run(world, 20.0)
    assert len(digests(world)) == 1


def test_the_digest_counts_what_it_does_not_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    storm(world, 500)
    shown = digests(world)[0]
    assert Message(shown.text, shown.blocks).size() < 4_000
    assert metric(world.board, "flinkwatch_notifications_suppressed_total", integration="slack", reason="digest")


def test_the_log_of_a_process_that_runs_on_forgets_what_ended_two_weeks_ago_and_its_digests(world: World) -> None:
    for number in range(100):
        world.say(incident(number))
    run(world, 60.0)
    assert len(digests(world)) == 1
    for number in range(99):
        world.say(resolved(number))
    run(world, 300.0)
    run(world, 15 * 86_400.0, step=43_200.0)
    gone = {(key or b"").decode() for key, value in dict(world.kafka.read_notification_log(0)).items() if value is None}
    assert {f"slack/i{number}" for number in range(99)} <= gone
    assert f"slack/{digests(world)[0].metadata['event_payload']['incident']}" not in gone, "one of it is open"
    world.say(resolved(99))
    run(world, 300.0)
    run(world, 16 * 86_400.0, step=43_200.0)
    alive = {key for key, value in dict(world.kafka.read_notification_log(0)).items() if value is not None}
    assert alive == {b"slack/~start"}
