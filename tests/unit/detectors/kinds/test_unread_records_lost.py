"""Lost records are told once, summed up, and over when everything left has been read."""

from detectors.events.event import Event
from detectors.events.vocabulary import flinkwatch_itself, match
from detectors.incident import Transition
from tests.unit.detectors.streams import START, in_order, log, run


def event(line: str, at: int) -> Event:
    found = match.match_anywhere(line)
    assert found is not None
    return log(found[0], at, at, "flinkwatch", 100, **found[1])


def lost(at: int, count: int, until: int, partition: str = "0") -> Event:
    return event(flinkwatch_itself.lost("flink.logs", partition, count, until), at)


def read_up(at: int, partition: str = "0") -> Event:
    return event(flinkwatch_itself.read_up("flink.logs", partition), at)


def said(*events: Event) -> list[Transition]:
    return run(in_order(events), until=START + 600_000)


def test_removed_records_are_critical_at_once_and_counted() -> None:
    found = said(lost(0, 4000, 5000))
    assert [(t.transition, t.severity, t.cause) for t in found] == [("opened", "critical", "unread_records_lost")]
    assert "removed 4000 records of flink.logs/0 before" in found[0].summary


def test_it_is_over_only_when_every_partition_has_been_read_to_its_end() -> None:
    both = lost(0, 10, 50, "0"), lost(1, 20, 70, "1")
    assert [t.transition for t in said(*both, read_up(10_000, "0"))].count("resolved") == 0
    found = said(*both, read_up(10_000, "0"), read_up(20_000, "1"))
    assert found[-1].transition == "resolved"
    assert "removed 30 records of 2 partitions of flink.logs" in found[-1].summary


def test_a_line_that_comes_again_opens_nothing_and_counts_nothing() -> None:
    found = said(lost(0, 10, 50), lost(1_000, 10, 50), read_up(10_000), lost(400_000, 10, 50))
    assert [t.transition for t in found] == ["opened", "resolved"]
    assert "removed 10 records" in found[-1].summary


def test_reading_up_to_the_end_without_a_gap_is_nothing() -> None:
    assert said(read_up(0)) == []


def began_again(at: int, partition: str = "0") -> Event:
    return event(flinkwatch_itself.began_again("flink.logs", partition, 89), at)


def test_a_topic_that_was_made_again_is_a_warning_until_it_is_read() -> None:
    found = said(began_again(0, "0"), began_again(0, "1"), read_up(10_000, "0"), read_up(20_000, "1"))
    assert (found[0].transition, found[0].severity, found[0].cause) == ("opened", "warning", "unread_records_lost")
    assert found[0].summary.startswith("flink.logs was deleted and made again: flinkwatch reads it from its beginning")
    assert found[-1].transition == "resolved"


def test_a_topic_may_be_made_again_more_than_once_and_lose_records_afterwards() -> None:
    """Offsets of the topic that is no more say nothing of the new one."""
    found = said(
        lost(0, 10, 5_000),
        read_up(1_000),
        began_again(100_000),
        read_up(101_000),
        lost(200_000, 3, 40),
        read_up(201_000),
    )
    assert "removed 3 records of flink.logs/0" in found[-1].summary
    assert found[-1].transition == "resolved"
