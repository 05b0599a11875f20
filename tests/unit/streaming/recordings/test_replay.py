"""A replay ends as a job would that hears no more."""

import pytest

from detectors.events.event import Record
from detectors.kinds.telemetry.unread_records_lost import UnreadRecordsLost
from streaming.recordings.replay import run
from tests.recorded import said
from tests.unit.detectors.streams import START, alone, log


def test_a_fatal_error_at_the_end_of_a_jobmanager_log_is_reported() -> None:
    text = (
        "2026-11-21 00:06:25,154 ERROR org.apache.flink.runtime.entrypoint.ClusterEntrypoint [] - "
        "Fatal error occurred in the cluster entrypoint.\n"
        "java.lang.IllegalStateException: too old resource version"
    )
    (opened,) = said([Record("flink.logs", 0, 0, 1_795_219_585_154, b"c/jm", text.encode())])
    assert (opened.transition, opened.cause) == ("opened", "jobmanager_lost")
    assert "too old resource version" in opened.summary


def test_an_event_that_waits_for_a_deadline_at_the_end_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock does not reach the deadline, since the event's source is not trusted with it."""
    taken: list[int] = []
    record = Record("flink.logs", 0, 0, START, None, b"")
    monkeypatch.setattr(UnreadRecordsLost, "fact", lambda *given: taken.append(given[1].event.offset))
    monkeypatch.setattr(UnreadRecordsLost, "has_deadlines", True)
    monkeypatch.setattr(UnreadRecordsLost, "next_deadline", lambda *_: START + 20_000)
    where = {"topic": "flink.logs", "partition": "0"}
    lines = [log("input_read_up", at, n, lag=0, **where) for n, at in enumerate((0, 2_000, 30_000))]
    arrived = [(START + 2_000 * n, record, [one]) for n, one in enumerate(lines)]
    assert [*run(arrived, alone("unread_records_lost"), "")] == []
    assert taken == [0, 1, 2]
