"""What the demo plays, and when it may say that all of it has been delivered."""

import threading
import time
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from detectors.events.event import Record
from sinks.kafka.access import KafkaAccess
from sinks.kafka.topics import TopicNames
from streaming.errors import UserError
from streaming.job.heartbeat import canary_sent_at
from tests.demo import settled
from tests.demo.demo import Player
from tests.demo.playback import Playback
from tests.demo.settled import Settled

NOWHERE = KafkaAccess(bootstrap_servers="127.0.0.1:9")
RECORDS = [Record("flink.logs", p, o, 1_000 + 700 * o, None, b"line") for o in range(4) for p in (0, 1)]


class SlowProducer:
    """Kafka has a record only once the producer was flushed; notes the order in which Kafka gets them."""

    def __init__(self, **_: Any) -> None:
        self.stored: list[tuple[str, int]] = []
        self._sent: list[tuple[str, int]] = []
        self.values: list[bytes] = []
        self.flushed = threading.Event()

    def send(self, topic: str, **fields: Any) -> Any:
        self.values.append(fields["value"])
        # A heartbeat is quicker than everything that waits.
        (self.stored if topic == "heartbeat" else self._sent).append((topic, fields["timestamp_ms"]))
        return self

    def add_callback(self, _: Any) -> None:
        """Never called."""

    def flush(self, timeout: float) -> None:
        self.stored += self._sent
        self._sent.clear()
        self.flushed.set()

    def close(self) -> None:
        """Nothing is held."""


class BrokenProducer(SlowProducer):
    def flush(self, timeout: float) -> None:
        raise KafkaTimeoutError("no broker")


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> SlowProducer:
    made = SlowProducer()
    monkeypatch.setattr("sinks.kafka.clients.KafkaProducer", lambda **_: made)
    return made


def test_no_heartbeat_overtakes_a_record_before_it(producer: SlowProducer) -> None:
    Playback(NOWHERE, RECORDS, "heartbeat", 1_000).run(threading.Event())
    assert len(producer.stored) == len(RECORDS) + 3
    assert [at for _, at in producer.stored] == sorted(at for _, at in producer.stored)


def test_after_the_recording_canaries_advance_the_clock(producer: SlowProducer) -> None:
    stop, began = threading.Event(), time.time()
    player = Playback(NOWHERE, RECORDS, "heartbeat", 1_000)
    thread = threading.Thread(target=player.send_heartbeats, args=(stop,))
    thread.start()
    assert producer.flushed.wait(60)
    stop.set()
    thread.join()
    assert canary_sent_at(producer.values[0]) >= int(began * 1000)
    assert producer.stored[0][1] > RECORDS[-1].timestamp


def test_a_recording_that_could_not_be_played_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.kafka.clients.KafkaProducer", BrokenProducer)
    with Player(Playback(NOWHERE, RECORDS, "heartbeat", 1_000)) as player:
        player.thread.join(60)
        assert not player.played.is_set()
        with pytest.raises(UserError, match=r"could not be played to its end: .*no broker"):
            player.check()


def test_it_is_settled_after_two_canaries_and_when_delivery_has_committed_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first canary shows that all was read; its own batch may still be writing until the second is back."""
    wall, back, delivered = [100.0], [99.0], [False]
    monkeypatch.setattr(settled.time, "time", lambda: wall[0])
    asked = Settled(NOWHERE, "", TopicNames(), "slack")
    monkeypatch.setattr(asked, "_last_canary", lambda: back[0])
    monkeypatch.setattr(asked, "_delivered", lambda: delivered[0])
    assert not asked.now(), "it was sent before the last record"
    back[0], wall[0] = 101.0, 103.0
    assert not asked.now(), "its batch may not have written yet"
    back[0] = 102.0
    assert not asked.now(), "sent before the first one came back"
    back[0] = 104.0
    assert not asked.now(), "an incident still waits"
    delivered[0] = True
    assert asked.now()
