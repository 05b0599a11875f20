"""Only a clock that is certainly ahead is said, and never alone."""

import msgspec

from detectors.detector import Now
from detectors.events.event import Event, LogEvent
from detectors.flink.topology import Topology
from detectors.incident import Finding
from detectors.kinds.clock_skew import ClockSkew
from tests.unit.detectors.streams import START, log, metric, run

JOB = "a" * 32
MINUTE = 60_000


def found(events: list[Event]) -> list[Finding]:
    detector, state, topology = ClockSkew(ClockSkew.Config()), ClockSkew.State(), Topology()
    said: list[Finding] = []
    for event in events:
        said += detector.update(state, event, Now(event.timestamp, event.timestamp), topology)
    return said


def triggers(lag: int, count: int = 8, zone: int = 0) -> list[Event]:
    events: list[Event] = []
    for n in range(count):
        line = log(
            "checkpoint_triggered", n * MINUTE, n, lag=lag, checkpoint=str(n), job=JOB, epoch=str(START + n * MINUTE)
        )
        events.append(msgspec.structs.replace(line, local_time=line.local_time + zone))
    return events


def lines(lag: int, zone: int = 0, source: str = "tm", count: int = 8) -> list[Event]:
    events: list[Event] = []
    for n in range(count):
        line: LogEvent = log("task_state", n * MINUTE, n, source, lag)
        events.append(msgspec.structs.replace(line, local_time=line.local_time + zone))
    return events


def test_a_clock_a_minute_ahead_is_info_and_opens_no_incident() -> None:
    said = found(triggers(lag=-MINUTE))
    assert [(f.severity, f.subject) for f in said] == [("info", "jm")]
    assert "60 s ahead" in said[0].summary
    assert [t for t in run(triggers(lag=-MINUTE)) if t.cause == "clock_skew"] == []


def test_lines_that_are_shipped_late_say_nothing_of_a_clock() -> None:
    for lag in (20 * 1000, 2 * MINUTE, 8 * MINUTE, 14 * MINUTE):
        assert found([*triggers(100), *lines(lag)]) == [], lag


def test_the_zone_that_one_source_has_told_serves_the_others() -> None:
    zone = 8 * 3_600_000
    assert found(lines(-2 * MINUTE, zone)) == []
    assert [f.subject for f in found([*triggers(100, 1, zone), *lines(-2 * MINUTE, zone)])] == ["tm"]


def test_a_source_in_another_zone_is_not_ahead() -> None:
    assert found([*triggers(100), *lines(100, zone=2 * 3_600_000)]) == []


def test_a_few_lines_or_a_small_lead_are_nothing() -> None:
    assert found(triggers(lag=-MINUTE, count=4)) == []
    assert found(triggers(lag=-20_000)) == []


def test_it_is_over_when_lines_are_in_time_again() -> None:
    later = [
        log("checkpoint_triggered", at, at, checkpoint="1", job=JOB, epoch=str(START + at))
        for at in range(20 * MINUTE, 30 * MINUTE, MINUTE)
    ]
    assert [f.closed_at is not None for f in found([*triggers(-MINUTE), *later])] == [False, True]


def test_samples_with_a_time_of_their_own_are_held_against_kafkas() -> None:
    ahead = [
        msgspec.structs.replace(metric("heap_used", n * MINUTE, 1.0, n), timestamp=START + (n - 1) * MINUTE)
        for n in range(8)
    ]
    assert len(found(list(ahead))) == 1
