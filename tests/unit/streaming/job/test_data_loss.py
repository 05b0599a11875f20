"""What proves that records were removed before they were read, and what does not."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from detectors.events.vocabulary import flinkwatch_itself
from sinks.kafka.access import KafkaAccess
from streaming.errors import RestartNeededError
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


def test_a_gap_is_reported_once_and_its_end_when_nothing_is_left_to_read() -> None:
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


def gaps(lines: list[str], began_again: list[str]) -> DataLossWatch:
    return DataLossWatch(
        KafkaAccess(bootstrap_servers="a:9092"), ("logs",), lines.append, ("logs", "config"), began_again
    )


def test_offsets_that_begin_again_under_the_query_end_it_so_that_the_next_start_reads_from_the_beginning() -> None:
    lines: list[str] = []
    one = gaps(lines, [])
    one.progressed(progress(1, 80, 89, 89))
    with pytest.raises(RestartNeededError, match="logs was deleted and created again while it was read"):
        one.progressed(progress(2, 89, 32, 32))


def test_another_topic_id_ends_the_query_even_if_offsets_continue() -> None:
    one = gaps([], [])
    one.compare({"logs": "old", "config": "x"})
    one.compare({"config": "x"})
    one.progressed(progress(1, 80, 89, 89))
    one.compare({"logs": "new", "config": "x"})
    with pytest.raises(RestartNeededError, match="logs was deleted"):
        one.progressed(progress(2, 89, 90, 90))


def test_a_correction_at_the_start_is_reported_once_and_ends_when_it_is_read() -> None:
    lines: list[str] = []
    line = flinkwatch_itself.began_again("logs", "0", 89)
    one = gaps(lines, [line, flinkwatch_itself.began_again("config", "0", 4)])
    assert lines == [line]
    # The batch that was not committed ends where the topic begins now.
    one.progressed(progress(7, 89, 0, 40))
    one.progressed(progress(8, 0, 30, 40))
    assert lines == [line]
    one.progressed(progress(9, 30, 40, 40))
    assert lines == [line, READ_UP]


def test_after_a_restart_of_the_query_the_new_ids_count() -> None:
    lines: list[str] = []
    one = gaps(lines, [])
    one.compare({"logs": "old"})
    one.compare({"logs": "new"})
    one.corrected([flinkwatch_itself.began_again("logs", "0", 89)])
    one.compare({"logs": "new"})
    one.progressed(progress(3, 89, 0, 40))
    assert lines == [flinkwatch_itself.began_again("logs", "0", 89)]


def test_the_next_process_also_reports_the_end_of_a_gap() -> None:
    one = gaps([], [])
    one.firsts.saw(100, at(5000))
    with capture_logs() as logged:
        one.progressed(progress(1, 1000, 6000, 9000))
    assert logged == [
        {
            "event": "unread records were deleted by Kafka",
            "log_level": "warning",
            "topic": "logs",
            "partition": 0,
            "count": 4000,
        }
    ]
    assert one.open() == [("logs", "0")]
    lines: list[str] = []
    other = gaps(lines, [])
    other.resume(one.open())
    other.progressed(progress(2, 6000, 9000, 9000))
    assert lines == [READ_UP]
    assert other.open() == []
