"""What becomes of each request: a record, or an answer that says why not."""

from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from detectors.incident import Transition
from sinks.contract.action_request import ActionError, ActionRequest
from sinks.contract.feedback import decode_feedback
from sinks.delivery.requests import Requests
from sinks.delivery.silencing import SilenceBook
from sinks.prometheus.collector import IncidentCollector
from tests.unit.sinks.samples import OPENED_AT, make_transition

NOW = OPENED_AT + 300_000


class Desk:
    """Requests with everything around them in memory."""

    def __init__(self, *transitions: Transition) -> None:
        self.board = IncidentCollector()
        self.board.feedback.finish_start()
        for one in transitions:
            self.board.show_incident(one.incident, one)
        self.written: list[bytes] = []
        self.incomplete: str | None = None
        self.down = False
        book = SilenceBook(self._write, 86_400_000, lambda: NOW)
        self.requests = Requests(self.board, book, self._write, lambda: self.incomplete, lambda: NOW)

    def ask(self, wish: str, **changes: Any) -> str:
        fields: dict[str, Any] = {"person": "ann", "user": "U0ANN", "at": NOW, "incident": make_transition().incident}
        return self.requests.perform(ActionRequest(wish=wish, **fields | changes))  # type: ignore[arg-type]

    def _write(self, key: bytes, value: bytes) -> None:
        if self.down:
            raise KafkaTimeoutError("no broker")
        self.written.append(value)


@pytest.fixture
def desk() -> Desk:
    return Desk(make_transition())


def test_a_second_acknowledgement_names_the_first_and_writes_nothing(desk: Desk) -> None:
    assert desk.ask("acknowledge") == ""
    assert desk.ask("acknowledge", person="ben", at=NOW + 1) == "ann has acknowledged this incident at 14:08:00 UTC."
    assert len(desk.written) == 1


def test_the_same_request_at_another_deliverer_needs_no_answer(desk: Desk) -> None:
    desk.ask("acknowledge")
    assert desk.ask("acknowledge") == ""
    assert len(desk.written) == 1


def test_words_are_added_to_a_label_that_exists(desk: Desk) -> None:
    desk.ask("not_an_incident")
    desk.ask("not_an_incident", words="a load test", at=NOW + 1)
    assert [decode_feedback(value).words for value in desk.written] == ["", "a load test"]


def test_a_label_that_does_not_exist_cannot_be_withdrawn(desk: Desk) -> None:
    assert desk.ask("withdraw") == "This incident is not marked."
    assert desk.written == []


@pytest.mark.parametrize("wish", ["acknowledge", "not_an_incident", "withdraw", "silence"])
def test_what_is_not_open_is_refused(desk: Desk, wish: str) -> None:
    with pytest.raises(ActionError, match="Incident other is not open"):
        desk.ask(wish, incident="other", choice="1h")


@pytest.mark.parametrize("wish", ["acknowledge", "silence"])
def test_without_kafka_nothing_is_taken_as_done(desk: Desk, wish: str) -> None:
    desk.down = True
    with pytest.raises(ActionError, match="Nothing was changed"):
        desk.ask(wish, choice="1h")
    desk.down = False
    assert desk.ask(wish, choice="1h").startswith("Silence " if wish == "silence" else "")
    assert len(desk.written) == 1


def test_a_deliverer_that_does_not_know_all_incidents_yet_answers_so(desk: Desk) -> None:
    desk.incomplete = "not read"
    with pytest.raises(ActionError, match="has just started"):
        desk.ask("status")


def test_status_lists_the_most_severe_first_and_counts_the_rest() -> None:
    many = [make_transition(incident=f"i{number:02}", job_name=f"job {number}") for number in range(30)]
    desk = Desk(*many, make_transition(incident="worst", severity="critical"))
    lines = desk.ask("status").splitlines()
    assert lines[0] == "31 open incidents:"
    assert lines[1].startswith("🔴 Checkpoint overdue · prod-eu · orders-enrichment · for 6 min 36 s")
    assert lines[1].endswith("worst")
    assert (len(lines), lines[-1]) == (22, "and 11 more")
