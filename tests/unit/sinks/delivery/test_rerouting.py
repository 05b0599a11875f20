"""Changed routes and quiet hours: what was sent is continued, what was not sent follows the new ones."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from kafka import TopicPartition
from structlog.testing import capture_logs

from detectors.incident import Silenced, Transition
from tests.unit.sinks.memory_kafka import TOPICS
from tests.unit.sinks.samples import make_transition
from tests.unit.sinks.scripted import Bench

OPENED = make_transition()
UPDATED = make_transition(seq=2, transition="updated")
RESOLVED = make_transition(seq=3, transition="resolved")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


class Routed(Bench):
    """A receiver whose routes are changed by hand, with a topic and a collector that have what the job wrote."""

    def __init__(self, *, target: bool = True, quiet_s: float = 0.0) -> None:
        self.target, self.quiet_for, self.version = target, quiet_s, 0
        super().__init__(
            is_target=lambda _: self.target, quiet_until=self._quiet_until, routes_version=lambda: self.version
        )

    def change(self, *, target: bool = True, quiet_s: float = 0.0) -> None:
        self.target, self.quiet_for = target, quiet_s
        self.version += 1
        self.settle()

    def say(self, *transitions: Transition, partition: int = 0) -> None:
        for one in transitions:
            place = len(self.kafka.logs[TopicPartition(TOPICS.incidents, partition)])
            self.kafka.write(TOPICS.incidents, one.incident, msgspec.json.encode(one), partition)
            self.dispatcher.accept(one, partition, place, self.now_ms())
            self.board.show_incident(one.incident, one, (partition, place))

    def settle(self, seconds: float = 0.0) -> None:
        super().settle(seconds)
        for partition, offset in self.dispatcher.to_read():
            found = self.kafka.read_incident(partition, offset)
            assert found is not None
            self.dispatcher.requeue(msgspec.json.decode(found[1], type=Transition), partition, found[0])
        super().settle()

    def sent(self) -> list[tuple[str, int]]:
        return [(incident, seq) for _, incident, seq, _ in self.sink.sent]

    def _quiet_until(self, _one: Transition, now: datetime) -> datetime | None:
        return now + timedelta(seconds=self.quiet_for) if self.quiet_for else None


def test_an_incident_that_was_sent_is_continued_to_its_end_although_the_routes_changed() -> None:
    routed = Routed()
    routed.say(OPENED)
    routed.settle()
    routed.change(target=False)
    routed.say(UPDATED)
    routed.settle()
    routed.say(RESOLVED)
    routed.settle()
    assert [seq for _, seq in routed.sent()] == [1, 2, 3]


def test_a_new_receiver_is_notified_of_open_incidents_once() -> None:
    """So an incident that opened while deliverers had different routes is not lost."""
    routed = Routed(target=False)
    routed.say(OPENED)
    routed.settle()
    assert routed.sent() == []
    routed.change(target=True)
    for _ in range(20):
        routed.settle(5)
    assert routed.sent() == [(OPENED.incident, 1)]


def test_an_incident_that_the_collector_reads_after_the_change_is_found() -> None:
    routed = Routed(target=False)
    routed.change(target=False)
    routed.say(OPENED)
    routed.target = True
    routed.settle(5)
    assert routed.sent() == [(OPENED.incident, 1)]


@pytest.mark.parametrize(
    "last",
    [RESOLVED, make_transition(seq=2, transition="updated", silence=Silenced("a1", 1 << 42, "ann", "backfill"))],
    ids=["resolved", "silenced"],
)
def test_what_has_resolved_or_is_silenced_is_not_sent_to_a_new_receiver(last: Transition) -> None:
    routed = Routed(target=False)
    routed.say(OPENED, last)
    routed.change(target=True)
    routed.settle(5)
    assert (routed.sent(), routed.kafka.read_again) == ([], [])


def test_of_another_deliverers_partition_nothing_is_read() -> None:
    routed = Routed(target=False)
    routed.say(OPENED, partition=1)
    routed.dispatcher.release(1)
    routed.change(target=True)
    assert (routed.sent(), routed.kafka.read_again) == ([], [])


def test_incidents_of_other_receivers_are_not_read() -> None:
    routed = Routed(target=False)
    routed.say(OPENED)
    routed.change(target=False)
    assert routed.kafka.read_again == []


def test_a_record_that_compaction_left_of_another_incident_is_not_sent() -> None:
    routed = Routed(target=False)
    routed.say(OPENED, RESOLVED)
    routed.target = True
    routed.dispatcher.requeue(OPENED, 0, 0)
    routed.settle()
    assert routed.sent() == []


def test_a_hundred_open_incidents_are_read_in_parts() -> None:
    routed = Routed(target=False)
    routed.say(*(make_transition(incident=f"i{number}") for number in range(100)))
    routed.target, routed.version = True, 1
    assert [len(routed.dispatcher.to_read()) for _ in range(3)] == [50, 50, 0]


@pytest.mark.parametrize(
    ("change", "sent"),
    [
        ({"quiet_s": 0.0}, [1]),
        ({"quiet_s": 7_200.0}, []),
        ({"target": False}, []),
    ],
    ids=["they end", "they last longer", "to another receiver"],
)
def test_what_quiet_hours_hold_back_follows_the_change(change: dict[str, Any], sent: list[int]) -> None:
    routed = Routed(quiet_s=3_600.0)
    routed.say(OPENED)
    routed.settle()
    routed.change(**change)
    routed.settle(3_601)
    assert [seq for _, seq in routed.sent()] == sent
    routed.target = True
    routed.settle(3_600)
    assert [seq for _, seq in routed.sent()] == ([1] if change.get("target", True) else [])
