"""When the leader election is broken, when it only blinked, and what follows."""

import pytest

from detectors.events.event import Event
from detectors.incident import Transition
from tests.unit.detectors.streams import START, in_order, log, run

SECOND, MINUTE = 1_000, 60_000
AT = 10 * MINUTE


def of_election(*events: Event, until: int = AT + 5 * MINUTE) -> list[Transition]:
    return [
        t for t in run(in_order(events), until=START + until) if any(f.kind == "ha_connection_lost" for f in t.findings)
    ]


def line(event_type: str, after: int, source: str = "jm", **fields: str) -> Event:
    return log(event_type, AT + after, after % 1_000, source, **fields)


def test_a_connection_that_is_back_within_seconds_is_none() -> None:
    blinked = [line("ha_suspended", 0), line("leader_revoked", 20), line("ha_connected", 2 * SECOND)]
    assert of_election(*blinked) == []


def test_a_suspended_connection_is_a_warning_and_a_lost_leadership_critical() -> None:
    assert [t.severity for t in of_election(line("ha_suspended", 0))] == ["warning"]
    assert [t.severity for t in of_election(line("ha_suspended", 0), line("leader_revoked", 20))] == ["critical"]


def test_a_lost_session_is_said_without_waiting_for_its_return() -> None:
    said = of_election(line("ha_suspended", 0), line("ha_lost", 1 * SECOND))
    assert said[0].severity == "critical"
    assert said[0].at <= START + AT + 5 * SECOND


def test_all_processes_that_lose_it_are_one_finding() -> None:
    said = of_election(*(line("ha_lost", i, s) for i, s in enumerate(("jm", "tm-1", "tm-2"))))
    assert [t.transition for t in said] == ["opened"]
    assert [len(t.findings) for t in said] == [1]
    assert "jm, tm-1, tm-2" in said[0].summary


def test_it_ends_when_the_last_process_is_connected_again() -> None:
    lost = [line("ha_lost", 0), line("ha_lost", 1, "tm-1")]
    one = line("ha_connected", 20 * SECOND)
    other = line("ha_connected", 30 * SECOND, "tm-1")
    assert "resolved" not in [t.transition for t in of_election(*lost, one)]
    assert of_election(*lost, one, other)[-1].transition == "resolved"


@pytest.mark.parametrize(
    "proof",
    [
        line("leader_granted", 20 * SECOND, "jm-2"),
        line("checkpoint_completed", 20 * SECOND, job="a" * 32, checkpoint="9", bytes="1", duration="1"),
    ],
    ids=["leader", "checkpoint"],
)
def test_a_leader_or_a_completed_checkpoint_ends_it(proof: Event) -> None:
    assert of_election(line("ha_lost", 0), proof)[-1].transition == "resolved"


def test_what_is_stopped_loses_its_connection_without_an_incident() -> None:
    stop = line("process_signalled", 0, signal="15")
    assert of_election(stop, line("leader_revoked", 10), line("ha_lost", 20)) == []
    assert of_election(line("leader_revoked", 0), line("process_signalled", 900, signal="15")) == []


def test_a_client_that_gave_up_is_an_incident_although_its_process_ends_after_it() -> None:
    ending = line("cluster_ending", 10, what="X", status="UNKNOWN")
    assert [t.transition for t in of_election(line("ha_gave_up", 0), ending)] == ["opened"]


def test_a_lock_that_could_not_be_renewed_once_is_nothing_and_twice_is() -> None:
    assert of_election(line("ha_lock_failed", 0)) == []
    assert len(of_election(line("ha_lock_failed", 0), line("ha_lock_failed", 5 * SECOND))) == 1
    assert of_election(line("ha_lock_failed", 0), line("ha_lock_failed", 60 * SECOND)) == []


def test_the_end_of_the_session_is_forecast_from_what_was_negotiated() -> None:
    said = of_election(log("ha_session", 0, source="jm", session="8000"), line("ha_suspended", 0))
    assert said[0].forecast is not None
    assert said[0].forecast.at == START + AT + 8 * SECOND
    later = of_election(line("ha_suspended", 0), line("ha_lost", 60 * SECOND))
    assert later[-1].forecast is not None
    assert later[-1].forecast.at == START + AT + 5 * MINUTE
