"""The zone of a source: how it is learned, guessed and forgotten."""

import pytest

from detectors.engine.time_zones import TimeZoneOffsets
from detectors.events.event import LogEvent

HOUR, QUARTER = 3_600_000, 900_000
NOW = 1_795_227_180_000


def line(local: int, arrived: int, source: str = "jm", zoned: bool = False, **fields: str) -> LogEvent:
    event_type = "checkpoint_triggered" if "epoch" in fields else "checkpoint_expired"
    return LogEvent(event_type, "c", source, source, arrived, local, "t", 0, 0, fields, "", zoned=zoned)


def test_a_line_with_a_zone_of_its_own_teaches_nothing() -> None:
    zones = TimeZoneOffsets()
    assert zones.event_time(line(NOW, NOW + 5 * HOUR, zoned=True)) == NOW
    assert (zones.learned, zones.guessed, zones.delays) == ({}, {}, {"jm": 5 * HOUR})


@pytest.mark.parametrize(("off", "known"), [(15 * HOUR, True), (15 * HOUR + QUARTER, False), (-15 * HOUR, True)])
def test_no_zone_is_more_than_fifteen_hours_from_utc(off: int, known: bool) -> None:
    zones = TimeZoneOffsets()
    zones.event_time(line(NOW + off, NOW + off, epoch=str(NOW)))
    assert zones.learned == ({"jm": off} if known else {})


def test_only_a_trigger_line_teaches_and_the_newest_counts() -> None:
    zones = TimeZoneOffsets()
    other = line(NOW + HOUR, NOW, epoch=str(NOW))
    other.event_type = "checkpoint_expired"
    zones.event_time(other)
    assert zones.learned == {}
    zones.event_time(line(NOW + 2 * HOUR, NOW, epoch=str(NOW)))
    zones.event_time(line(NOW + HOUR, NOW, epoch=str(NOW)))  # summer time ends
    assert zones.learned == {"jm": HOUR}


def test_the_zone_that_a_neighbour_has_learned_is_taken_when_it_is_within_a_quarter_of_an_hour() -> None:
    zones = TimeZoneOffsets(learned={"tm": 2 * HOUR})
    assert zones.event_time(line(NOW + 2 * HOUR, NOW + QUARTER)) == NOW
    assert zones.guessed == {}
    assert zones.event_time(line(NOW + 2 * HOUR, NOW + 2 * QUARTER, "far")) == NOW + 2 * QUARTER
    assert zones.guessed == {"far": 2 * HOUR - 2 * QUARTER}


def test_of_two_guesses_the_one_with_less_delay_is_truer() -> None:
    zones = TimeZoneOffsets()
    zones.event_time(line(NOW + HOUR, NOW + HOUR))
    assert zones.event_time(line(NOW + HOUR, NOW)) == NOW
    assert zones.event_time(line(NOW + HOUR, NOW + 3 * HOUR)) == NOW
    assert zones.guessed == {"jm": HOUR}


def test_a_line_without_a_time_was_written_as_long_before_it_arrived_as_the_quickest_line_of_its_source() -> None:
    zones = TimeZoneOffsets()
    assert zones.event_time(line(-1, NOW)) == NOW
    for delay in (500, 300, 400):
        zones.event_time(line(NOW, NOW + delay, zoned=True))
    assert zones.event_time(line(-1, NOW + 1_000)) == NOW + 700
    assert zones.event_time(line(-1, NOW + 1_000, "other")) == NOW + 1_000
    zones.event_time(line(NOW, NOW - 50, zoned=True))  # a clock that is ahead
    assert zones.event_time(line(-1, NOW + 1_000)) == NOW + 1_000


def test_midnight_of_1970_is_a_time() -> None:
    assert TimeZoneOffsets().event_time(line(0, 100, zoned=True)) == 0


def test_sources_are_bounded_and_the_oldest_is_forgotten() -> None:
    zones = TimeZoneOffsets()
    for n in range(501):
        zones.event_time(line(NOW + HOUR, NOW, f"s{n}", epoch=str(NOW)))
    assert (len(zones.learned), len(zones.delays), "s0" in zones.learned) == (500, 500, False)
    zones = TimeZoneOffsets()
    for n in range(501):
        zones.event_time(line(NOW + HOUR, NOW, f"s{n}"))
        zones.event_time(line(NOW + HOUR, NOW, "s500" if n == 500 else "s0"))
    assert (len(zones.guessed), "s0" in zones.guessed) == (500, False)
