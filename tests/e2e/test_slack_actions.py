"""Buttons with real deliverers, a real broker, and WebSockets: nothing is done twice, and nothing by half."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from detectors.incident import Transition
from detectors.incidents.silences import Silence
from detectors.settings.live import SILENCE_KEY, read_silence
from sinks.contract.feedback import Feedback, decode_feedback
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.reading import partitions_of, read_to_end
from sinks.kafka.topics import TopicNames, ensure_topics
from tests.embedded.broker import Broker
from tests.fake_slack.server import SlackServer
from tests.reliability.deliverer import Deliverer, configuration
from tests.unit.sinks.samples import make_transition

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_numbers = itertools.count(1)
NOW = int(time.time() * 1000)
OPENED = make_transition(at=NOW, opened_at=NOW, findings=[])


class Installation:
    """Topics of a test's own, a Slack, and deliverers that are started one by one."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self.folder = bootstrap, folder
        self.access = KafkaAccess(bootstrap_servers=bootstrap)
        self.topics = TopicNames(prefix=f"actions{next(_numbers)}")
        self.slack = SlackServer()
        self.deliverers: list[Deliverer] = []
        with closing(KafkaAdminClient(**client_options(self.access))) as admin:
            ensure_topics(admin, self.topics, create=True)

    def close(self) -> None:
        for one in self.deliverers:
            one.kill()
        self.slack.close()

    def start(self, point: str = "") -> Deliverer:
        """One more deliverer, with its connection open."""
        folder = self.folder / f"deliverer-{len(self.deliverers)}"
        folder.mkdir()
        actions = {"enabled": True, "allowed": ["*"]}
        made = configuration(self.bootstrap, self.topics.prefix, self.slack.base_url, actions=actions)
        self.deliverers.append(Deliverer(folder, made, point))
        self.slack.sockets.wait_for_sockets(sum(not one.ended() for one in self.deliverers))
        return self.deliverers[-1]

    def say(self, *transitions: Transition) -> None:
        with closing(KafkaProducer(**client_options(self.access))) as producer:
            for one in transitions:
                producer.send(self.topics.incidents, key=one.incident.encode(), value=msgspec.json.encode(one))
            producer.flush(timeout=60)

    def message(self) -> str:
        """The `ts` of the one message, once it is there."""
        eventually(lambda: bool(self.slack.parents()), "a message")
        (parent,) = self.slack.parents()
        return parent.ts

    def shown(self) -> str:
        (parent,) = self.slack.parents()
        return str(parent.blocks)

    def wait_until_known(self) -> None:
        """Until every deliverer lists the incident: envelopes go to the connections in turn."""
        running = sum(not one.ended() for one in self.deliverers)

        def known() -> bool:
            before = len(self.slack.answers)
            for _ in range(running):
                self.slack.command("status").acknowledged.wait(60)
            return all(OPENED.incident in one["text"] for one in self.slack.wait_for_answers(before + running)[before:])

        eventually(known, "every deliverer knows the incident")

    def press(self, wish: str, choice: str = "") -> None:
        assert self.slack.press(self.message(), wish, choice=choice).acknowledged.wait(60)

    def feedback(self) -> list[Feedback]:
        return [decode_feedback(record.value) for record in self._records(self.topics.feedback)]

    def silences(self) -> list[Silence]:
        records = self._records(self.topics.config)
        return [read_silence(one.value).read() for one in records if one.key.startswith(SILENCE_KEY)]

    def _records(self, topic: str) -> list[Any]:
        with closing(clients.consumer(self.access)) as consumer:
            return list(read_to_end(consumer, partitions_of(consumer, topic)))


def eventually(holds: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.1)


@pytest.fixture
def here(broker: Broker, tmp_path: Path) -> Iterator[Installation]:
    made = Installation(broker.bootstrap, tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_acknowledge_silence_undo_and_label_with_two_deliverers(here: Installation) -> None:
    here.start()
    here.start()
    here.say(OPENED)
    here.wait_until_known()
    here.press("acknowledge")
    eventually(lambda: "Acknowledged by ann" in here.shown(), "the acknowledgement is shown")
    here.press("silence", "1h")
    eventually(lambda: len(here.silences()) == 1, "the silence is written")
    (silence,) = here.silences()
    assert silence.fits(OPENED.cluster, OPENED.job_name, OPENED.cause)
    here.say(
        make_transition(seq=2, transition="updated", at=NOW, findings=[], silence=silence.silenced(silence.edges()[1]))
    )
    eventually(lambda: "End the silence" in here.shown(), "the button to undo it")
    here.press("end_silence")
    eventually(lambda: len(here.silences()) == 2, "the silence is ended")
    assert here.silences()[1].edges()[1] < silence.edges()[1]
    here.press("not_an_incident")
    eventually(lambda: "Marked as not an incident by ann" in here.shown(), "the label is shown")
    assert [one.answer for one in here.feedback()] == ["acknowledged", "not_an_incident"]
    assert "Acknowledged by ann" in here.shown()


def test_a_press_that_is_sent_again_to_the_other_deliverer_makes_one_silence(here: Installation) -> None:
    here.start()
    here.start()
    here.say(OPENED)
    here.wait_until_known()
    here.slack.sockets.ack_within_s, here.slack.sockets.lose_acks = 1.0, 1
    here.press("silence", "4h")
    eventually(lambda: bool(here.silences()), "the silence is written")
    assert len({one.id for one in here.silences()}) == 1


@pytest.mark.parametrize(("point", "kept"), [("before the feedback", False), ("after the feedback", True)])
def test_kill_9_between_the_ack_and_the_write_leaves_all_or_nothing(here: Installation, point: str, kept: bool) -> None:
    here.say(OPENED)
    doomed = here.start(point)
    here.message()
    while not doomed.ended(0.5):
        here.slack.press(here.message(), "acknowledge").acknowledged.wait(5)
    assert [one.answer for one in here.feedback()] == ["acknowledged"] * kept
    here.start()
    if kept:
        eventually(lambda: "Acknowledged by ann" in here.shown(), "the acknowledgement is shown")
    else:
        assert "Acknowledged by ann" not in here.shown()
        here.wait_until_known()
        here.press("acknowledge")
        eventually(lambda: "Acknowledged by ann" in here.shown(), "pressing again works")
    assert len(here.feedback()) == 1
    assert len(here.slack.parents()) == 1
