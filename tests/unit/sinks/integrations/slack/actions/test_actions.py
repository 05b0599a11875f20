"""Buttons and the command, from a press in the fake Slack over a WebSocket to the records and back to the message."""

import time
from collections.abc import Iterator

import pytest

from detectors.incident import Transition
from detectors.values.durations import parse_duration
from sinks.secret import SecretError
from tests.fake_slack.server import APP_TOKEN, TOKEN, SlackServer
from tests.unit.sinks.integrations.slack.actions.world import NOW, ActionsWorld, PatientKafka, wait_until
from tests.unit.sinks.memory_kafka import TOPICS
from tests.unit.sinks.samples import make_transition

OPENED = make_transition(at=NOW, opened_at=NOW, findings=[])
RESOLVED = make_transition(seq=2, transition="resolved", at=NOW + 1, opened_at=NOW, ended_at=NOW + 1, findings=[])


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("SLACK_APP_TOKEN", APP_TOKEN)
    with SlackServer() as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> Iterator[ActionsWorld]:
    yield from started(ActionsWorld(slack))


def started(world: ActionsWorld) -> Iterator[ActionsWorld]:
    world.delivery.start()
    try:
        world.slack.sockets.wait_for_sockets(1)
        yield world
    finally:
        world.delivery.stop()


def shown(world: ActionsWorld) -> str:
    return str(world.slack.parents()[-1].blocks)


def settled(world: ActionsWorld, action: str, result: str = "done", count: int = 1) -> None:
    wait_until(lambda: world.counted(action, result) >= count, f"{action} {result}")


def test_acknowledge_writes_a_record_and_the_message_shows_who(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    envelope = world.slack.press(ts, "acknowledge")
    assert envelope.acknowledged.wait(3)
    wait_until(lambda: "Acknowledged by ann at" in shown(world), "the message shows it")
    (record,) = world.feedback()
    assert (record.incident, record.answer, record.person, record.user) == (
        OPENED.incident,
        "acknowledged",
        "ann",
        "U0ANN",
    )
    assert (record.kind, record.cluster, record.job) == (OPENED.cause, OPENED.cluster, OPENED.job_name)


def test_a_silence_is_made_as_by_the_command_line_and_can_be_undone(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    world.slack.press(ts, "silence", choice="1h")
    (answer,) = world.slack.wait_for_answers(1)
    (silence,) = world.silences()
    assert silence.fits(OPENED.cluster, OPENED.job_name, OPENED.cause)
    assert (silence.author, silence.kinds) == ("ann", (OPENED.cause,))
    # From the time at which it was pressed.
    assert silence.edges()[1] - parse_duration("1h") <= int(time.time() * 1000)
    assert silence.edges()[1] - parse_duration("1h") >= NOW
    assert silence.id in answer["text"]
    world.say(
        make_transition(seq=2, transition="updated", at=NOW, findings=[], silence=silence.silenced(silence.edges()[1]))
    )
    wait_until(lambda: "End the silence" in shown(world), "the button to undo it")
    world.slack.press(ts, "end_silence")
    world.slack.wait_for_answers(2)
    first, ended = world.silences()
    assert ended.id == first.id
    assert ended.edges()[1] < first.edges()[1]


def test_a_silence_until_resolved_ends_with_its_incident(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    world.slack.press(ts, "silence", choice="resolved")
    settled(world, "silence")
    assert len(world.silences()) == 1
    world.say(RESOLVED)
    wait_until(lambda: len(world.silences()) == 2, "the silence is ended")
    first, ended = world.silences()
    assert ended.id == first.id
    assert ended.edges()[1] < first.edges()[1]


@pytest.mark.slow
def test_a_silence_until_resolved_ends_also_if_its_deliverer_died(slack: SlackServer) -> None:
    kafka = PatientKafka()
    (first,) = (ActionsWorld(slack, kafka),)
    for world in started(first):
        world.slack.press(world.opened(OPENED), "silence", choice="resolved")
        settled(world, "silence")
    first.say(RESOLVED)
    for world in started(ActionsWorld(slack, kafka)):
        wait_until(lambda world=world: len(world.silences()) == 2, "another one ends it")


def test_not_an_incident_is_kept_with_its_words_and_can_be_withdrawn(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    world.slack.press(ts, "not_an_incident")
    (answer,) = world.slack.wait_for_answers(1)
    assert f"/flinkwatch not-an-incident {OPENED.incident} WORDS" in answer["text"]
    world.slack.command(f"not-an-incident {OPENED.incident} a planned load test")
    settled(world, "not_an_incident", count=2)
    assert [record.words for record in world.feedback()] == ["", "a planned load test"]
    wait_until(lambda: "Marked as not an incident by ann" in shown(world), "the message shows it")
    world.slack.press(ts, "withdraw")
    wait_until(lambda: "Marked as not" not in shown(world), "the mark vanishes")
    assert world.feedback()[-1].withdrawn


@pytest.mark.slow
def test_status_lists_open_incidents_for_the_one_who_asks(world: ActionsWorld) -> None:
    world.opened(OPENED)
    world.slack.press(world.opened(make_transition(incident="2", cluster="test", at=NOW, findings=[])), "acknowledge")
    settled(world, "acknowledge")
    world.slack.command("status")
    world.slack.command("status test")
    world.slack.command("status nowhere")
    answers = sorted(one["text"] for one in world.slack.wait_for_answers(3))
    assert [one.split("\n")[0] for one in answers] == [
        "1 open incidents of cluster test:",
        "2 open incidents:",
        "No open incidents of cluster nowhere.",
    ]
    assert "acknowledged by ann" in answers[0]
    assert all(one["response_type"] == "ephemeral" for one in world.slack.answers)


@pytest.mark.slow
def test_a_command_that_does_not_exist_is_answered_with_those_that_do(world: ActionsWorld) -> None:
    world.slack.command("dance")
    (answer,) = world.slack.wait_for_answers(1)
    assert "/flinkwatch status" in answer["text"]


@pytest.mark.slow
def test_only_the_named_users_and_members_of_the_named_groups_may_act(slack: SlackServer) -> None:
    slack.add_group("S0ONCALL", ["U0BEN"])
    for world in started(ActionsWorld(slack, allowed=("U0ANN1", "S0ONCALL"))):
        ts = world.opened(OPENED)
        slack.press(ts, "acknowledge", user="U0EVE", name="eve")
        (answer,) = slack.wait_for_answers(1)
        assert answer["text"].startswith("You may not do this")
        assert answer["user"] == "U0EVE"
        assert world.feedback() == []
        slack.press(ts, "acknowledge", user="U0BEN", name="ben")
        settled(world, "acknowledge")
        assert world.feedback()[0].person == "ben"


@pytest.mark.slow
def test_a_group_whose_members_slack_does_not_name_allows_no_one(slack: SlackServer) -> None:
    slack.take_scope("usergroups:read")
    for world in started(ActionsWorld(slack, allowed=("S0ONCALL",))):
        slack.press(world.opened(OPENED), "acknowledge")
        (answer,) = slack.wait_for_answers(1)
        assert "not known who is in the user group S0ONCALL" in answer["text"]
        assert world.feedback() == []


@pytest.mark.slow
def test_an_envelope_that_arrives_again_acts_once(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    world.slack.sockets.ack_within_s = 0.2
    world.slack.sockets.lose_acks = 2
    envelope = world.slack.press(ts, "silence", choice="1h")
    assert envelope.acknowledged.wait(10)
    settled(world, "silence", "duplicate", 2)
    assert envelope.sent == 3
    assert len(world.silences()) == 1
    assert len(world.slack.answers) == 1


@pytest.mark.slow
def test_two_deliverers_that_get_the_same_envelope_write_the_same_record(slack: SlackServer) -> None:
    kafka = PatientKafka()
    both = ActionsWorld(slack, kafka), ActionsWorld(slack, kafka)
    for one in both:
        one.delivery.start()
    try:
        slack.sockets.wait_for_sockets(2)
        ts = both[0].opened(OPENED)
        wait_until(lambda: OPENED.incident in both[1].delivery.board.open_incidents(), "both know it")
        slack.sockets.ack_within_s = 0.2
        slack.sockets.lose_acks = 1
        slack.press(ts, "silence", choice="1h")
        wait_until(lambda: sum(one.counted("silence", "done") for one in both) == 2, "both have acted")
        first, second = both[0].silences()
        assert first == second
    finally:
        for one in both:
            one.delivery.stop()


@pytest.mark.slow
def test_an_incident_that_has_resolved_or_never_was_is_answered(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    stale_button = world.slack.parents()[-1].blocks
    world.say(RESOLVED)
    wait_until(lambda: OPENED.incident not in world.delivery.board.open_incidents(), "it has resolved")
    wait_until(lambda: "Resolved" in shown(world), "the message shows it")
    world.slack.parents()[-1].blocks = stale_button
    world.slack.press(ts, "acknowledge")
    (answer,) = world.slack.wait_for_answers(1)
    assert "is not open" in answer["text"]
    assert world.feedback() == []


def test_without_kafka_the_person_learns_that_nothing_was_changed(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    world.kafka.refuse_writes = True
    world.slack.press(ts, "acknowledge")
    (answer,) = world.slack.wait_for_answers(1)
    assert answer["text"].startswith("Nothing was changed: flinkwatch cannot write to Kafka")
    world.kafka.refuse_writes = False
    world.slack.press(ts, "acknowledge")
    settled(world, "acknowledge")
    assert len(world.feedback()) == 1


@pytest.mark.slow
def test_another_workspace_is_refused(world: ActionsWorld) -> None:
    world.slack.press(world.opened(OPENED), "acknowledge", team={"id": "T0OTHER"})
    (answer,) = world.slack.wait_for_answers(1)
    assert "another workspace" in answer["text"]
    assert world.feedback() == []


def test_a_payload_with_wrong_fields_is_counted_and_the_next_one_works(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    assert world.slack.press(ts, "acknowledge", actions="no").acknowledged.wait(5)
    settled(world, "unknown", "invalid")
    world.slack.press(ts, "acknowledge")
    settled(world, "acknowledge")


def test_unknown_buttons_and_envelopes_do_nothing(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    sockets = world.slack.sockets
    for text in ("", "{", "[]", '{"type": 5}', '{"type": "hello", "num_connections": []}', "[" * 5_000):
        sockets.send_raw(text)
    sockets.send("interactive", {"type": "view_submission", "x": "y" * 60_000})
    sockets.send("events_api", {"event": {}})
    button = {"action_id": "other_app", "action_ts": "1.0", "value": "x"}
    world.slack.press(ts, "acknowledge", actions=[button])
    last = world.slack.press(ts, "acknowledge")
    assert last.acknowledged.wait(10)
    settled(world, "acknowledge")
    assert len(world.feedback()) == 1


@pytest.mark.slow
def test_an_answer_goes_to_slack_alone(world: ActionsWorld) -> None:
    ts = world.opened(OPENED)
    world.slack.press(ts, "silence", choice="1h", response_url="http://127.0.0.1:9/steal")
    settled(world, "silence")
    assert world.slack.answers == []


@pytest.mark.slow
class TestConnection:
    def lost(self, world: ActionsWorld) -> dict[str, float]:
        found = (s for metric in world.delivery.board.delivery.socket_lost.collect() for s in metric.samples)
        return {s.labels["reason"]: s.value for s in found if s.name.endswith("_total")}

    def remarks(self, world: ActionsWorld) -> str:
        return world.delivery.page.answer("/-/ready", "")[2].decode()

    @pytest.mark.parametrize("reason", ["refresh_requested", "too_many_websockets"])
    def test_a_disconnect_is_counted_and_the_next_connection_works(self, world: ActionsWorld, reason: str) -> None:
        ts = world.opened(OPENED)
        world.slack.sockets.disconnect(reason, close=False)
        wait_until(lambda: self.lost(world).get(reason) == 1, "it is counted")
        world.slack.press(ts, "acknowledge")
        settled(world, "acknowledge")

    def test_a_connection_that_ends_is_opened_again(self, world: ActionsWorld) -> None:
        ts = world.opened(OPENED)
        world.slack.sockets.disconnect("link_disabled")
        wait_until(lambda: bool(self.lost(world)), "it is counted")
        world.slack.sockets.wait_for_sockets(1)
        world.slack.press(ts, "acknowledge")
        settled(world, "acknowledge")

    def test_a_wrong_app_token_is_a_remark_and_delivery_works(
        self, slack: SlackServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-wrong")
        world = ActionsWorld(slack)
        world.delivery.start()
        try:
            world.opened(OPENED)
            wait_until(lambda: "invalid_auth: set the app-level token" in self.remarks(world), "the remark")
            assert self.lost(world)["invalid_auth"] >= 1
        finally:
            world.delivery.stop()

    def test_the_remark_vanishes_once_the_connection_is_open(self, world: ActionsWorld) -> None:
        wait_until(lambda: "slack actions" not in self.remarks(world), "no remark")

    def test_without_the_app_token_delivery_does_not_start(
        self, slack: SlackServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SLACK_APP_TOKEN")
        with pytest.raises(SecretError, match=r"sinks\.slack\.actions\.app_token_env: environment variable"):
            ActionsWorld(slack).delivery.check()


@pytest.mark.slow
def test_a_name_with_wildcards_is_silenced_as_itself(world: ActionsWorld) -> None:
    hostile: Transition = make_transition(cluster="a*", job_name="~x?", at=NOW, findings=[])
    world.slack.press(world.opened(hostile), "silence", choice="4h")
    settled(world, "silence")
    (silence,) = world.silences()
    assert silence.fits("a*", "~x?", hostile.cause)
    assert not silence.fits("ab", "~x?", hostile.cause)
    assert not silence.fits("a*", "~xy", hostile.cause)


@pytest.mark.slow
def test_records_of_the_topic_that_cannot_be_read_are_counted(world: ActionsWorld) -> None:
    for key, value in (("acknowledged/1", b"{"), ("acknowledged/2", b'{"incident":"1"}')):
        world.kafka.write(TOPICS.feedback, key, value)
    world.slack.press(world.opened(OPENED), "acknowledge")
    settled(world, "acknowledge")
    skipped = world.delivery.board.delivery.skipped.labels(TOPICS.feedback, "undecodable")
    wait_until(lambda: any(s.value == 2 for m in skipped.collect() for s in m.samples), "counted")
