"""What proves that records were removed before they were read, and what does not."""

import json
from typing import Any

import pytest

from detectors.events.vocabulary import flinkwatch_itself
from sinks.kafka.access import KafkaAccess
from streaming.errors import TopicMadeAgainError
from streaming.job.data_loss import DataLossWatch, FirstOffsets

LOST = "flinkwatch: 4000 unread records were removed by Kafka from logs/0 before offset 5000"
READ_UP = "flinkwatch has read up to the end of logs/0"


def at(offset: int) -> dict[str, dict[str, int]]:
    return {"logs": {"0": offset}}


def test_a_batch_that_begins_below_what_was_the_first_offset_before_it_has_lost_records() -> None:
    firsts = FirstOffsets()
    firsts.saw(100, at(5000))
    assert firsts.judge(1, 200, at(1000), at(6000), at(9000)) == [LOST]


def test_records_that_were_removed_after_the_batch_began_may_have_been_read() -> None:
    firsts = FirstOffsets()
    firsts.saw(100, at(0))
    firsts.saw(300, at(5000))
    assert firsts.judge(1, 200, at(1000), at(6000), at(9000)) == []


def test_a_gap_is_told_once_and_its_end_when_nothing_is_left_to_read() -> None:
    firsts = FirstOffsets()
    firsts.saw(100, at(5000))
    assert firsts.judge(1, 200, at(1000), at(6000), at(9000)) == [LOST]
    assert firsts.judge(1, 200, at(1000), at(6000), at(9000)) == []
    assert firsts.judge(2, 300, at(6000), at(9000), at(9000)) == [READ_UP]
    assert firsts.judge(3, 400, at(9000), at(9000), at(9000)) == []


def test_a_first_offset_that_has_not_moved_past_what_was_read_is_nothing() -> None:
    firsts = FirstOffsets()
    firsts.saw(100, at(1000))
    assert firsts.judge(1, 200, at(1000), at(6000), at(6000)) == []


def test_without_a_first_offset_or_a_start_nothing_is_claimed() -> None:
    firsts = FirstOffsets()
    assert firsts.judge(1, 200, at(1000), at(6000), at(6000)) == []
    firsts.saw(100, {})
    assert firsts.judge(2, 200, at(1000), at(6000), at(6000)) == []
    assert firsts.judge(3, 200, {}, at(6000), at(6000)) == []


def progress(batch: int, start: int, end: int, latest: int) -> dict[str, Any]:
    offsets = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    source = {name: json.dumps(at(offset)) for name, offset in offsets.items()}
    return {"batchId": batch, "timestamp": "2026-11-21T08:00:00.123Z", "sources": [source]}


def gaps(told: list[str], began_again: list[str]) -> DataLossWatch:
    return DataLossWatch(
        KafkaAccess(bootstrap_servers="a:9092"), ("logs",), told.append, ("logs", "config"), began_again
    )


def test_offsets_that_begin_again_under_the_query_end_it_so_that_the_next_start_reads_from_the_beginning() -> None:
    told: list[str] = []
    one = gaps(told, [])
    one.progressed(progress(1, 80, 89, 89))
    with pytest.raises(TopicMadeAgainError, match="logs was deleted and made again while it was read"):
        one.progressed(progress(2, 89, 32, 32))


def test_another_id_under_the_query_ends_it_also_when_offsets_go_on() -> None:
    one = gaps([], [])
    one.compare({"logs": "old", "config": "x"})
    one.compare({"config": "x"})
    one.progressed(progress(1, 80, 89, 89))
    one.compare({"logs": "new", "config": "x"})
    with pytest.raises(TopicMadeAgainError, match="logs was deleted"):
        one.progressed(progress(2, 89, 90, 90))


def test_what_the_start_has_corrected_is_told_once_and_over_when_it_is_read() -> None:
    told: list[str] = []
    line = flinkwatch_itself.began_again("logs", "0", 89)
    one = gaps(told, [line, flinkwatch_itself.began_again("config", "0", 4)])
    assert told == [line]
    # The batch that was not committed ends where the topic begins now.
    one.progressed(progress(7, 89, 0, 40))
    one.progressed(progress(8, 0, 30, 40))
    assert told == [line]
    one.progressed(progress(9, 30, 40, 40))
    assert told == [line, READ_UP]


def test_after_a_restart_of_the_query_the_new_ids_count() -> None:
    told: list[str] = []
    one = gaps(told, [])
    one.compare({"logs": "old"})
    one.compare({"logs": "new"})
    one.corrected([flinkwatch_itself.began_again("logs", "0", 89)])
    one.compare({"logs": "new"})
    one.progressed(progress(3, 89, 0, 40))
    assert told == [flinkwatch_itself.began_again("logs", "0", 89)]


def test_the_end_of_a_gap_is_told_by_the_next_process_as_well() -> None:
    one = gaps([], [])
    one.firsts.saw(100, at(5000))
    one.progressed(progress(1, 1000, 6000, 9000))
    assert one.open() == [("logs", "0")]
    told: list[str] = []
    other = gaps(told, [])
    other.resume(one.open())
    other.progressed(progress(2, 6000, 9000, 9000))
    assert told == [READ_UP]
    assert other.open() == []
