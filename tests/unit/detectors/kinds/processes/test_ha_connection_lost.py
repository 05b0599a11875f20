"""When the leader election is broken, when it only blinked, and what follows."""

import pytest

from detectors.incident import Transition
from tests.unit.detectors.story import MINUTE, SECOND, Story, story
from tests.unit.detectors.streams import START

AT = 10 * MINUTE


class Election(Story):
    """A story that begins ten minutes after START; its times are counted from there."""

    def then(self, time: int, meaning: str, source: str = "jm", **fields: str) -> "Election":
        """A line so long after the beginning."""
        return self.line(meaning, AT + time, source=source, **fields)

    def reported(self) -> list[Transition]:
        """The transitions of five minutes."""
        return self.transitions(AT + 5 * MINUTE)


def election() -> Election:
    return Election("ha_connection_lost")


def test_a_connection_that_is_back_within_seconds_is_none() -> None:
    blinked = election().then(0, "ha_suspended").then(20, "leader_revoked").then(2 * SECOND, "ha_connected")
    assert blinked.reported() == []


def test_a_suspended_connection_is_a_warning_and_a_lost_leadership_critical() -> None:
    suspended = election().then(0, "ha_suspended")
    assert [t.severity for t in suspended.reported()] == ["warning"]
    assert [t.severity for t in suspended.then(20, "leader_revoked").reported()] == ["critical"]


def test_a_lost_session_is_reported_without_waiting_for_its_return() -> None:
    transitions = election().then(0, "ha_suspended").then(1 * SECOND, "ha_lost").reported()
    assert transitions[0].severity == "critical"
    assert transitions[0].at <= START + AT + 5 * SECOND


def test_all_processes_that_lose_it_are_one_finding() -> None:
    transitions = election().then(0, "ha_lost").then(1, "ha_lost", "tm-1").then(2, "ha_lost", "tm-2").reported()
    assert [t.transition for t in transitions] == ["opened"]
    assert [len(t.findings) for t in transitions] == [1]
    assert "jm, tm-1, tm-2" in transitions[0].summary


def test_it_ends_when_the_last_process_is_connected_again() -> None:
    lost = election().then(0, "ha_lost").then(1, "ha_lost", "tm-1").then(20 * SECOND, "ha_connected")
    assert "resolved" not in [t.transition for t in lost.reported()]
    assert lost.then(30 * SECOND, "ha_connected", "tm-1").reported()[-1].transition == "resolved"


def test_a_leader_or_a_completed_checkpoint_ends_it() -> None:
    leader = election().then(0, "ha_lost").then(20 * SECOND, "leader_granted", "jm-2")
    assert leader.reported()[-1].transition == "resolved"
    checkpoint = election().then(0, "ha_lost").completed(9, at=AT + 20 * SECOND)
    assert checkpoint.reported()[-1].transition == "resolved"


def test_what_is_stopped_loses_its_connection_without_an_incident() -> None:
    first = election().then(0, "process_signalled", signal="15")
    assert first.then(10, "leader_revoked").then(20, "ha_lost").reported() == []
    assert election().then(0, "leader_revoked").then(900, "process_signalled", signal="15").reported() == []


def test_a_client_that_gave_up_is_an_incident_although_its_process_ends_after_it() -> None:
    ended = election().then(0, "ha_gave_up").then(10, "cluster_ending", what="X", status="UNKNOWN")
    assert [t.transition for t in ended.reported()] == ["opened"]


@pytest.mark.parametrize(("again", "incidents"), [(None, 0), (5 * SECOND, 1), (60 * SECOND, 0)])
def test_a_lock_that_could_not_be_renewed_once_is_nothing_and_twice_is(again: int | None, incidents: int) -> None:
    failed = election().then(0, "ha_lock_failed")
    if again is not None:
        failed.then(again, "ha_lock_failed")
    assert len(failed.reported()) == incidents


def test_the_end_of_the_session_is_forecast_from_what_was_negotiated() -> None:
    transitions = election().line("ha_session", 0, session="8000").then(0, "ha_suspended").reported()
    assert transitions[0].forecast is not None
    assert transitions[0].forecast.at == START + AT + 8 * SECOND
    later = election().then(0, "ha_suspended").then(60 * SECOND, "ha_lost").reported()
    assert later[-1].forecast is not None
    assert later[-1].forecast.at == START + AT + 5 * MINUTE


def test_a_lost_session_explains_the_jobmanager_that_goes_with_it() -> None:
    history = story("ha_connection_lost", "jobmanager_lost").line("ha_lost", AT).line("jm_fatal", AT + SECOND)
    transitions = history.transitions(AT + 5 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "ha_connection_lost"
