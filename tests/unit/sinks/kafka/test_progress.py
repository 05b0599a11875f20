"""When a reader of whole topics has read everything."""

import pytest
from kafka import TopicPartition

from sinks.kafka.progress import Progress, caught_up

PART = TopicPartition("flinkwatch.incidents", 0)


@pytest.mark.parametrize(
    ("behind", "before", "fine"),
    [(0, False, True), (1, False, False), (1, True, True), (9_999, True, True), (10_000, True, False)],
)
def test_a_few_unread_records_are_no_problem_once_all_were_read(behind: int, before: bool, fine: bool) -> None:
    assert caught_up(behind, before) is fine


def test_it_is_complete_when_what_existed_at_the_start_was_read() -> None:
    progress = Progress([PART.topic])
    assert (progress.note({PART: 5}, {PART: 3}), progress.complete) == (2, False)
    assert (progress.note({PART: 9}, {PART: 5}), progress.complete) == (4, True)


def test_it_is_not_complete_without_a_topic_that_it_needs() -> None:
    progress = Progress([PART.topic, "flinkwatch.readings"])
    progress.note({PART: 0}, {PART: 0})
    assert not progress.complete
