"""Only a clock that is certainly ahead is reported, and never alone."""

import msgspec

from tests.unit.detectors.story import HOUR, MINUTE, SECOND, Followed, follow, story
from tests.unit.detectors.streams import START, metric


class Clocks(Followed):
    """Lines a minute apart whose own times are `-lag` ms ahead of Kafka's, printed in a zone so far from UTC."""

    def triggers(self, lag: int, count: int = 8, zone: int = 0) -> "Clocks":
        """Lines with an epoch, which shows the zone."""
        for n in range(count):
            self.triggered(at=n * MINUTE, lag=lag, zone=zone)
        return self

    def lines(self, lag: int, zone: int = 0) -> "Clocks":
        """Lines of a TaskManager."""
        for n in range(8):
            self.line("tm_registered", n * MINUTE, source="tm", lag=lag, zone=zone, tm="tm-1")
        return self


def clocks() -> Clocks:
    return Clocks("clock_skew")


def test_a_clock_a_minute_ahead_is_info_and_opens_no_incident() -> None:
    ahead = clocks().triggers(lag=-MINUTE)
    (finding,) = ahead.findings()
    assert (finding.severity, finding.subject) == ("info", "jm")
    assert "60 s ahead" in finding.summary
    assert ahead.readings() == {"source_clock_ahead_seconds": 60}
    assert ahead.transitions() == []


def test_lines_that_are_shipped_late_report_nothing_of_a_clock() -> None:
    for lag in (20 * SECOND, 2 * MINUTE, 8 * MINUTE, 14 * MINUTE):
        assert clocks().triggers(100).lines(lag).findings() == [], lag


def test_the_zone_that_one_source_has_shown_serves_the_others() -> None:
    zone = 8 * HOUR
    assert clocks().lines(-2 * MINUTE, zone).findings() == []
    assert [f.subject for f in clocks().triggers(100, 1, zone).lines(-2 * MINUTE, zone).findings()] == ["tm"]


def test_a_source_in_another_zone_is_not_ahead() -> None:
    assert clocks().triggers(100).lines(100, zone=2 * HOUR).findings() == []


def test_a_few_lines_or_a_small_lead_are_nothing() -> None:
    assert clocks().triggers(lag=-MINUTE, count=4).findings() == []
    assert clocks().triggers(lag=-20 * SECOND).findings() == []


def test_it_is_over_when_lines_are_in_time_again() -> None:
    history = clocks().triggers(-MINUTE)
    for at in range(20 * MINUTE, 30 * MINUTE, MINUTE):
        history.triggered(at=at)
    assert [f.closed_at is not None for f in history.findings()] == [False, True]


def test_samples_with_a_time_of_their_own_are_held_against_kafkas() -> None:
    history = follow("clock_skew")
    for n in range(8):
        sample = metric("heap_used", n * MINUTE, 1.0, n)
        history.add(msgspec.structs.replace(sample, timestamp=START + (n - 1) * MINUTE))
    assert len(history.findings()) == 1


def test_what_it_reports_is_part_of_an_incident_that_is_open() -> None:
    history = story("clock_skew", "checkpoint_failing")
    for n in range(1, 9):
        history.triggered(n, at=n * MINUTE, lag=-MINUTE).expired(n, at=n * MINUTE + 30 * SECOND)
    assert {f.kind for t in history.transitions(after="1 min") for f in t.findings} == {"checkpoint_failing"}
