"""What proves that records were removed before they were read, and what does not."""

from streaming.gaps import Firsts

LOST = "flinkwatch: 4000 unread records were removed by Kafka from logs/0 before offset 5000"
READ_UP = "flinkwatch has read up to the end of logs/0"


def at(offset: int) -> dict[str, dict[str, int]]:
    return {"logs": {"0": offset}}


def test_a_batch_that_begins_below_what_was_the_first_offset_before_it_has_lost_records() -> None:
    firsts = Firsts()
    firsts.saw(100, at(5000))
    assert firsts.judge(1, 200, at(1000), at(6000), at(9000)) == [LOST]


def test_records_that_were_removed_after_the_batch_began_may_have_been_read() -> None:
    firsts = Firsts()
    firsts.saw(100, at(0))
    firsts.saw(300, at(5000))
    assert firsts.judge(1, 200, at(1000), at(6000), at(9000)) == []


def test_a_gap_is_told_once_and_its_end_when_nothing_is_left_to_read() -> None:
    firsts = Firsts()
    firsts.saw(100, at(5000))
    assert firsts.judge(1, 200, at(1000), at(6000), at(9000)) == [LOST]
    assert firsts.judge(1, 200, at(1000), at(6000), at(9000)) == []
    assert firsts.judge(2, 300, at(6000), at(9000), at(9000)) == [READ_UP]
    assert firsts.judge(3, 400, at(9000), at(9000), at(9000)) == []


def test_a_first_offset_that_has_not_moved_past_what_was_read_is_nothing() -> None:
    firsts = Firsts()
    firsts.saw(100, at(1000))
    assert firsts.judge(1, 200, at(1000), at(6000), at(6000)) == []


def test_without_a_first_offset_or_a_start_nothing_is_claimed() -> None:
    firsts = Firsts()
    assert firsts.judge(1, 200, at(1000), at(6000), at(6000)) == []
    firsts.saw(100, {})
    assert firsts.judge(2, 200, at(1000), at(6000), at(6000)) == []
    assert firsts.judge(3, 200, {}, at(6000), at(6000)) == []
