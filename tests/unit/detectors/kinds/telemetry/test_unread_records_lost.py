"""Lost records are reported once, summed up, and resolved when everything left has been read."""

from detectors.events.vocabulary import flinkwatch_itself, match
from detectors.incident import Transition
from tests.unit.detectors.story import SECOND, Story

TOPIC = "flink.logs"


class Input(Story):
    """What flinkwatch writes of its own input."""

    def wrote(self, line: str, at: int) -> "Input":
        """A line as it is printed."""
        found = match.match_anywhere(line)
        assert found is not None
        return self.line(found[0], at, source="flinkwatch", **found[1])

    def lost(self, at: int, count: int, until: int, partition: str = "0") -> "Input":
        """Kafka removed so many records below the offset `until`."""
        return self.wrote(flinkwatch_itself.lost(TOPIC, partition, count, until), at)

    def read_up(self, at: int, partition: str = "0") -> "Input":
        """Everything that is left has been read."""
        return self.wrote(flinkwatch_itself.read_up(TOPIC, partition), at)

    def began_again(self, at: int, partition: str = "0") -> "Input":
        """The topic was deleted and made again."""
        return self.wrote(flinkwatch_itself.began_again(TOPIC, partition, 89), at)

    def reported(self) -> list[Transition]:
        """The transitions of ten minutes."""
        return self.transitions("10 min")


def records() -> Input:
    return Input("unread_records_lost")


def test_removed_records_are_critical_at_once_and_counted() -> None:
    found = records().lost(0, 4000, 5000).reported()
    assert [(t.transition, t.severity, t.cause) for t in found] == [("opened", "critical", "unread_records_lost")]
    assert "deleted 4000 unread records of flink.logs/0;" in found[0].summary


def test_it_is_over_only_when_every_partition_has_been_read_to_its_end() -> None:
    both = records().lost(0, 10, 50, "0").lost(1, 20, 70, "1").read_up(10 * SECOND, "0")
    assert [t.transition for t in both.reported()].count("resolved") == 0
    found = both.read_up(20 * SECOND, "1").reported()
    assert found[-1].transition == "resolved"
    assert "deleted 30 unread records of 2 partitions of flink.logs" in found[-1].summary


def test_a_line_that_comes_again_opens_nothing_and_counts_nothing() -> None:
    again = records().lost(0, 10, 50).lost(1 * SECOND, 10, 50).read_up(10 * SECOND).lost(400 * SECOND, 10, 50)
    found = again.reported()
    assert [t.transition for t in found] == ["opened", "resolved"]
    assert "deleted 10 unread records" in found[-1].summary


def test_reading_up_to_the_end_without_a_gap_is_nothing() -> None:
    assert records().read_up(0).reported() == []


def test_a_topic_that_was_made_again_is_a_warning_until_it_is_read() -> None:
    again = records().began_again(0, "0").began_again(0, "1").read_up(10 * SECOND, "0").read_up(20 * SECOND, "1")
    found = again.reported()
    assert (found[0].transition, found[0].severity, found[0].cause) == ("opened", "warning", "unread_records_lost")
    lost = "flink.logs was deleted and created again; unread records of the old topic are lost"
    assert found[0].summary.startswith(lost)
    assert found[-1].transition == "resolved"


def test_a_topic_may_be_made_again_more_than_once_and_lose_records_afterwards() -> None:
    """Offsets of the deleted topic do not apply to the new one."""
    history = records().lost(0, 10, 5_000).read_up(1 * SECOND)
    history.began_again(100 * SECOND).read_up(101 * SECOND)
    found = history.lost(200 * SECOND, 3, 40).read_up(201 * SECOND).reported()
    assert "deleted 3 unread records of flink.logs/0" in found[-1].summary
    assert found[-1].transition == "resolved"
