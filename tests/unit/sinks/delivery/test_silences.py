"""What delivery makes of silences: nobody is told anew under one, nothing is lost by one, and its end is told."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.incident import Silenced, Transition
from sinks.contract.sink import Notification
from sinks.integrations.alertmanager import AlertmanagerConfig, AlertmanagerSink
from sinks.integrations.pagerduty import event
from sinks.prometheus.collector import IncidentCollector
from tests.fake_slack.server import TOKEN, SlackServer
from tests.reliability.history import judge
from tests.unit.sinks.delivery.test_bootstrap import lose_log, receivers
from tests.unit.sinks.delivery.test_delivery import FIRST, OPENED, World, metric
from tests.unit.sinks.delivery.test_storm import digests, incident, own, run
from tests.unit.sinks.receiver import Receiver
from tests.unit.sinks.samples import OPENED_AT, make_transition

SILENCE = Silenced("a1", OPENED_AT + 3_600_000, "ann", "yearly *backfill*")
NAME = OPENED.incident


def under(seq: int, **changes: Any) -> Transition:
    """A change under the silence."""
    fields = {"transition": "updated", "silence": SILENCE, "reason": "silenced by ann"} | changes
    return make_transition(seq=seq, **fields)


def after(seq: int, **changes: Any) -> Transition:
    """A change after the silence."""
    fields = {"transition": "updated", "silenced_before": SILENCE, "reason": "the silence ended"} | changes
    return make_transition(seq=seq, **fields)


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer(channels=("flink-alerts", "oncall")) as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> World:
    return World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"))


def suppressed(world: World) -> float | None:
    return metric(world.board, "flinkwatch_notifications_suppressed_total", integration="slack", reason="silence")


def tell(world: World, *transitions: Transition) -> None:
    for one in transitions:
        world.say(one)
        world.settle()
    world.settle(5)


def test_a_silenced_incident_is_told_to_nobody_and_leaves_nothing_in_the_log(world: World) -> None:
    tell(world, under(1, transition="opened"), under(2), under(3, transition="resolved"))
    assert world.slack.calls == []
    assert suppressed(world) == 3
    assert world.log_entry(NAME) is None
    assert world.kafka.committed[FIRST] == 3


@pytest.mark.parametrize("restart", [False, True])
def test_when_its_silence_ends_with_the_incident_open_it_is_told_once(world: World, restart: bool) -> None:
    tell(world, under(1, transition="opened", severity="critical"))
    if restart:
        world.start()
    tell(world, after(2))
    (parent,) = world.slack.parents()
    shown = str(parent.blocks)
    assert "The silence by ann ended, the incident has been open since 2026-03-01 14:03:00 UTC" in shown
    assert world.methods() == ["chat.postMessage"]
    tell(world, after(3, transition="resolved", ended_at=OPENED_AT + 1))
    assert "The silence by" not in str(world.slack.parents()[0].blocks)


def test_a_message_that_stands_is_edited_under_a_silence_and_notifies_nobody(world: World) -> None:
    tell(world, OPENED, under(2), under(3, severity="critical", cause="late_barrier_acks"))
    world.settle(3600)
    tell(world, under(4, severity="critical"))
    (parent,) = world.slack.parents()
    assert "Silenced until 2026-03-01 15:03:00 UTC by ann: yearly ∗backfill∗" in str(parent.blocks)
    assert "🔕 Critical, silenced" in parent.text
    assert set(world.methods()[1:]) == {"chat.update"}
    tell(world, under(5, transition="resolved", ended_at=OPENED_AT + 1))
    assert "✅ Resolved" in world.slack.parents()[0].text
    assert world.slack.replies(parent.ts) == []


def test_the_end_of_the_silence_is_said_in_the_thread_and_what_is_critical_in_the_channel(world: World) -> None:
    tell(world, OPENED, under(2, severity="critical"), after(3, severity="critical"))
    (parent,) = world.slack.parents()
    (line,) = world.slack.replies(parent.ts)
    assert "The silence by ann ended, the incident has been open since" in line.text
    (call,) = [c for c in world.slack.calls if c.method == "chat.postMessage" and c.body.get("thread_ts")]
    assert call.body.get("reply_broadcast") in {True, "true", "1"}
    tell(world, after(4, severity="critical"))
    assert len(world.slack.replies(parent.ts)) == 1, "said once"


def test_what_waits_when_the_silence_begins_is_not_sent(world: World) -> None:
    world.slack.fail_next("chat.postMessage", status=503, error="service_unavailable")
    tell(world, OPENED)
    world.slack.calls.clear()
    world.say(OPENED)
    world.slack.fail_next("chat.postMessage", status=503, error="service_unavailable", times=50)
    other = make_transition(incident="other")
    world.say(other)
    world.settle()
    world.say(under(2, incident="other"))
    world.slack.forgive()
    world.settle(100)
    assert {m.metadata["event_payload"]["incident"] for m in world.slack.parents()} == {NAME}
    assert world.log_entry("other") is None
    tell(world, after(3, incident="other"))
    assert len(world.slack.parents()) == 2


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize("restart", [True, False])
def test_a_lost_answer_before_the_silence_is_looked_up_and_nothing_is_posted_anew(
    slack: SlackServer, arrived: bool, restart: bool
) -> None:
    world = World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"))
    slack.fail_next("chat.postMessage", **({"status": 500, "accept": True} if arrived else {"reset": True}))
    world.say(OPENED)
    world.settle()
    if restart:
        world.start()
    world.say(under(2))
    world.settle(2)
    assert world.methods().count("chat.postMessage") == 1
    assert world.methods().count("chat.update") == int(arrived)
    assert (world.log_entry(NAME) is not None) == arrived
    tell(world, after(3))
    (parent,) = slack.parents()
    assert parent.metadata["event_payload"]["seq"] == 3


def test_a_message_that_was_deleted_is_not_replaced_before_the_silence_is_over(world: World) -> None:
    tell(world, OPENED)
    world.slack.delete(world.slack.parents()[0].ts)
    tell(world, under(2))
    assert world.slack.parents() == []
    tell(world, after(3))
    assert len(world.slack.parents()) == 1


def test_what_was_put_aside_is_not_tried_under_a_silence_and_is_told_after_it(world: World) -> None:
    world.slack.fail_next("chat.postMessage", error="msg_too_long", times=2)
    tell(world, OPENED)
    tell(world, under(2))
    calls = len(world.slack.calls)
    for _ in range(3):
        world.settle(3700)
    assert [c.method for c in world.slack.calls[calls:]] == []
    assert metric(world.board, "flinkwatch_notifications_undelivered", integration="slack") == 0
    tell(world, after(3))
    assert len(world.slack.parents()) == 1


@pytest.mark.parametrize("group", [False, True])
def test_after_a_lost_log_silenced_incidents_are_edited_where_they_stand_and_else_not_told(
    world: World, group: bool
) -> None:
    tell(world, OPENED, under(1, incident="other", transition="opened"))
    lose_log(world, group=group)
    world.now += 7200
    world.start()
    tell(world, under(2))
    (parent,) = world.slack.parents()
    assert parent.metadata["event_payload"] == {"incident": NAME, "seq": 2}
    assert "silenced" in parent.text


def test_silenced_incidents_make_no_storm(world: World) -> None:
    world.say(*(incident(number, silence=SILENCE) for number in range(500)))
    run(world, 30.0)
    assert world.slack.calls == []
    world.say(*(incident(number) for number in range(500, 520)))
    run(world, 30.0)
    assert len(own(world)) == 20
    assert digests(world) == []


def test_an_incident_of_a_digest_counts_no_more_when_silenced_and_is_told_when_that_is_over(world: World) -> None:
    world.say(*(incident(number) for number in range(100)))
    run(world, 45.0)
    folded = [n for n in range(100) if f"i{n}" not in own(world)]
    world.say(*(incident(n, seq=2, transition="updated", silence=SILENCE) for n in folded))
    run(world, 120.0)
    (digest,) = digests(world)
    assert f"0 open, 0 over, {len(folded)} silenced" in digest.text
    assert len(own(world)) == 100 - len(folded)
    world.say(incident(folded[0], seq=3, transition="updated", silenced_before=SILENCE))
    run(world, 30.0)
    assert f"i{folded[0]}" in own(world)
    world.start()
    world.say(*(incident(n, seq=3, transition="resolved", silence=SILENCE) for n in folded[1:]))
    run(world, 30.0)
    assert f"0 open, {len(folded) - 1} over, 1 with" in digests(world)[0].text


def test_in_a_digest_of_many_the_end_of_a_silence_is_told_at_once(world: World) -> None:
    world.say(*(incident(number) for number in range(100)))
    run(world, 45.0)
    number = next(n for n in range(100) if f"i{n}" not in own(world))
    world.say(incident(number, seq=2, transition="updated", silence=SILENCE))
    run(world, 60.0)
    world.say(incident(number, seq=3, transition="updated", silenced_before=SILENCE))
    run(world, 10.0)
    assert f"i{number}" in own(world)


def test_silenced_incidents_do_not_keep_the_others_of_a_digest_from_their_own_messages(world: World) -> None:
    world.say(*(incident(number) for number in range(100)))
    run(world, 45.0)
    folded = [n for n in range(100) if f"i{n}" not in own(world)]
    world.say(*(incident(n, seq=2, transition="updated", silence=SILENCE) for n in folded[5:]))
    run(world, 120.0)
    assert {f"i{n}" for n in folded[:5]} <= own(world)


def test_what_quiet_hours_hold_is_not_told_at_their_end_when_it_is_silenced(slack: SlackServer) -> None:
    world = receivers(slack, routing={"quiet_hours": [{"begin": "14:00", "end": "15:00", "below": "critical"}]})
    world.say(OPENED)
    world.settle()
    world.say(under(2))
    world.settle()
    world.settle(3600)
    assert slack.calls == []


def test_a_webhook_hears_of_a_silence_only_for_what_it_has_heard_of(slack: SlackServer) -> None:
    with Receiver() as receiver:
        world = receivers(slack, slack={"enabled": False}, webhook={"enabled": True, "url": receiver.url})
        world.say(under(1, incident="other", transition="opened"))
        world.settle()
        assert receiver.received == []
        world.say(OPENED)
        world.settle()
        world.say(under(2))
        world.settle()
        world.say(after(2, incident="other"))
        world.settle()
        sent = [one.json() for one in receiver.received]
        assert [one["key"] for one in sent] == [f"{NAME}/1", f"{NAME}/2", "other/2"]
        assert sent[1]["transition"]["silence"]["author"] == "ann"
        assert sent[2]["transition"]["silenced_before"]["author"] == "ann"


def test_where_nobody_can_look_up_a_lost_answer_a_silenced_incident_waits_for_its_end(slack: SlackServer) -> None:
    with Receiver() as receiver:
        world = receivers(slack, slack={"enabled": False}, webhook={"enabled": True, "url": receiver.url})
        receiver.answers.append((0, {}))
        world.say(OPENED)
        world.settle()
        world.say(under(2))
        world.settle()
        world.settle(100)
        assert len(receiver.received) == 1
        world.say(under(3, transition="resolved", ended_at=OPENED_AT + 1))
        world.settle()
        assert receiver.received[-1].json()["key"] == f"{NAME}/3"


def test_what_is_put_aside_and_silenced_does_not_stand_in_the_way_of_others_put_aside(slack: SlackServer) -> None:
    with Receiver() as receiver:
        world = receivers(slack, slack={"enabled": False}, webhook={"enabled": True, "url": receiver.url})
        receiver.answers.extend([(400, {})] * 4)
        for name in ("first", "second"):
            world.say(make_transition(incident=name))
            world.settle(10)
        world.say(under(2, incident="first"))
        for _ in range(4):
            world.settle(3700)
        assert [one.json()["key"] for one in receiver.received[4:]] == ["second/1"]


def test_an_alert_that_stands_keeps_its_labels_under_a_silence_and_goes_on() -> None:
    with Receiver() as receiver:
        config = AlertmanagerConfig(enabled=True, urls=(receiver.url,), timeout="10s")
        sink = AlertmanagerSink(config, wall=lambda: OPENED_AT / 1000)
        sink.send(Notification(transition=OPENED))
        sink.send(Notification(transition=under(2, severity="critical")))
        sink.resend()
        first, second, again = (one.json() for one in receiver.received)
        assert [one["labels"] for one in (*second, *again)] == [first[0]["labels"]] * 2
        assert again[0]["annotations"]["silence"].startswith("Silenced until 2026-03-01 15:03:00 UTC by ann")
        sink.send(Notification(transition=after(3, severity="critical")))
        ended, begun = receiver.received[-1].json()
        assert (ended["labels"], begun["labels"]["severity"]) == (first[0]["labels"], "critical")
        assert "ended" in begun["annotations"]["silence"]


def test_alertmanager_is_not_sent_what_is_silenced(slack: SlackServer) -> None:
    with Receiver() as receiver:
        world = receivers(slack, slack={"enabled": False}, alertmanager={"enabled": True, "urls": [receiver.url]})
        world.say(under(1, transition="opened"))
        world.settle()
        world.settle(120)
        assert receiver.received == []
        world.say(after(2))
        world.settle()
        assert receiver.received[-1].json()[0]["labels"]["incident"] == NAME


def test_pagerduty_is_not_triggered_under_a_silence_and_resolved_for_what_was_told(
    slack: SlackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGERDUTY_ROUTING_KEY", "key")
    with Receiver() as receiver:
        pagerduty = {"enabled": True, "url": receiver.url, "min_severity": "warning"}
        world = receivers(slack, slack={"enabled": False}, pagerduty=pagerduty)
        for one in (under(1, incident="other", transition="opened"), OPENED, under(2, incident="other")):
            world.say(one)
            world.settle()
        world.say(under(2, transition="resolved", ended_at=OPENED_AT + 1))
        world.settle()
        world.say(under(3, incident="other", transition="resolved", ended_at=OPENED_AT + 1))
        world.settle()
        sent = [(one.json()["dedup_key"], one.json()["event_action"]) for one in receiver.received]
        assert sent == [(NAME, "trigger"), (NAME, "resolve")]


def test_the_end_of_a_silence_in_quiet_hours_waits_for_their_end(slack: SlackServer) -> None:
    world = receivers(slack, routing={"quiet_hours": [{"begin": "14:00", "end": "15:00", "below": "critical"}]})
    world.say(under(1, transition="opened"), after(2))
    world.settle()
    assert slack.calls == []
    world.settle(3600)
    assert len(slack.parents()) == 1


def test_pagerduty_reads_the_silence_among_the_details() -> None:
    details = event(under(2), "key")["payload"]["custom_details"]
    assert details["silence"].startswith("Silenced until")


def test_prometheus_shows_how_many_of_the_active_incidents_are_silenced() -> None:
    board = IncidentCollector()
    labels = {"kind": "checkpoint_overdue", "severity": "warning", "cluster": "prod-eu", "job": "orders-enrichment"}
    board.show_incident("a", OPENED)
    assert metric(board, "flinkwatch_incident_silenced", **labels) == 0
    board.show_incident("b", under(2, incident="b"))
    assert metric(board, "flinkwatch_incident_active", **labels) == 2
    assert metric(board, "flinkwatch_incident_silenced", **labels) == 1
    board.show_incident("b", after(3, incident="b"))
    assert metric(board, "flinkwatch_incident_silenced", **labels) == 0


DEEDS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["change", "silence", "end", "wait", "restart", "refuse", "lose answer"])
    ),
    min_size=4,
    max_size=24,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DEEDS)
def test_whatever_happens_nobody_is_told_anew_under_a_silence_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, deeds: list[tuple[int, str]]
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as server:
        world = World(server, now=time.time(), channel=server.channel_id("flink-alerts"))
        said: list[Transition] = []
        silenced: dict[int, bool] = {}
        seqs = dict.fromkeys(range(3), 0)
        for which, deed in deeds:
            if deed == "wait":
                world.settle(70)
            elif deed == "restart":
                world.start()
            elif deed == "refuse":
                server.fail_next("chat.postMessage", status=503, error="service_unavailable")
            elif deed == "lose answer":
                server.fail_next("chat.postMessage", status=500, accept=which > 0)
            else:
                silenced[which] = {"silence": True, "end": False}.get(deed, silenced.get(which, False))
                seqs[which] += 1
                make = under if silenced[which] else after
                said.append(make(seqs[which], incident=f"i{which}"))
                world.say(said[-1])
        server.forgive()
        for _ in range(10):
            world.settle(70)
        verdict = judge(said, server.calls, server.parents())
    assert (verdict.lost, verdict.out_of_order, verdict.told_under_silence) == ([], [], [])
    assert not verdict.doubled
