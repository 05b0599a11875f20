"""Silences that people ask for in Slack: exact, bounded, equal for equal requests, and ended with their incident."""

from typing import Any

import pytest

from detectors.incident import Transition
from detectors.incidents.silences import Silence
from detectors.settings.live import SILENCE_KEY, read_silence
from sinks.contract.action_request import UNTIL_RESOLVED, ActionError, ActionRequest
from sinks.delivery.silencing import SilenceBook
from sinks.prometheus.incident_metrics import OpenIncident
from tests.unit.sinks.samples import make_transition

NOW, HOUR, DAY = 1_772_373_780_000, 3_600_000, 86_400_000


class Topic:
    """The records that were written."""

    def __init__(self) -> None:
        self.now = NOW
        self.written: list[tuple[bytes, bytes]] = []
        self.book = SilenceBook(lambda key, value: self.written.append((key, value)), 30 * DAY, lambda: self.now)

    def silences(self) -> list[Silence]:
        assert all(key.startswith(SILENCE_KEY) for key, _ in self.written)
        return [read_silence(value).read() for _, value in self.written]


@pytest.fixture
def topic() -> Topic:
    return Topic()


def wish(choice: str = "1h", **changes: Any) -> ActionRequest:
    fields: dict[str, Any] = {"wish": "silence", "person": "ann", "user": "U0ANN", "at": NOW, "incident": "i1"}
    return ActionRequest(**fields | {"choice": choice} | changes)


def incident(**changes: Any) -> OpenIncident:
    one: Transition = make_transition(**changes)
    return OpenIncident.of(one)


def test_a_silence_matches_its_kind_cluster_and_job_alone(topic: Topic) -> None:
    made = topic.book.make(wish(), incident())
    assert made.fits("prod-eu", "orders-enrichment", "checkpoint_overdue")
    others = [("prod-eu", "orders", "checkpoint_overdue"), ("prod-e", "orders-enrichment", "checkpoint_overdue")]
    assert not any(made.fits(*names) for names in others)
    assert not made.fits("prod-eu", "orders-enrichment", "restart_loop")
    assert (made.edges()[1], made.author) == (NOW + HOUR, "ann")


def test_an_incident_without_a_job_is_silenced_for_its_cluster(topic: Topic) -> None:
    assert topic.book.make(wish(), incident(job_name="")).fits("prod-eu", "any", "checkpoint_overdue")


def test_the_same_request_makes_the_same_silence_and_a_later_one_another(topic: Topic) -> None:
    first = topic.book.make(wish(), incident())
    topic.now += 5_000
    assert topic.book.make(wish(), incident()) == first
    assert topic.book.make(wish(at=NOW + 1_000), incident()).id != first.id


@pytest.mark.parametrize("choice", ["31d", "0s", "never", "", "-1h"])
def test_a_length_that_is_not_allowed_is_refused(topic: Topic, choice: str) -> None:
    with pytest.raises(ActionError):
        topic.book.make(wish(choice), incident())
    assert topic.written == []


def test_a_request_that_comes_after_the_end_of_its_silence_is_refused(topic: Topic) -> None:
    topic.now += 2 * HOUR
    with pytest.raises(ActionError, match="ended already"):
        topic.book.make(wish(), incident())


def test_a_name_that_is_too_long_for_a_pattern_is_refused(topic: Topic) -> None:
    with pytest.raises(ActionError, match="its cluster is too long"):
        topic.book.make(wish(), incident(cluster="x" * 400))


def test_a_silence_is_ended_by_its_id_once(topic: Topic) -> None:
    made = topic.book.make(wish(), incident())
    topic.now += 60_000
    assert topic.book.end(made.id, "ben").edges()[1] == topic.now
    with pytest.raises(ActionError, match="has ended already"):
        topic.book.end(made.id, "ben")


def test_a_silence_of_the_configuration_file_cannot_be_ended(topic: Topic) -> None:
    with pytest.raises(ActionError, match="in the configuration file"):
        topic.book.end("b7", "ben")


def test_a_silence_until_resolved_ends_once_its_incident_is_not_open(topic: Topic) -> None:
    made = topic.book.make(wish(UNTIL_RESOLVED), incident())
    other = topic.book.make(wish(), incident())
    topic.book.end_resolved({"i1": None, "i2": None})
    assert topic.silences() == [made, other]
    topic.now += 60_000
    topic.book.end_resolved({"i2": None})
    topic.book.end_resolved({"i2": None})
    assert [silence.id for silence in topic.silences()] == [made.id, other.id, made.id]
    assert topic.silences()[-1].edges()[1] == topic.now
