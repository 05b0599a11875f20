"""Which topics were made again while the job did not run, and what is to be read of them."""

from streaming.job.checkpoint.topic_ids import NO_ID, InputTopics, Offsets, corrected


def there(begins: Offsets, ends: Offsets, **ids: str) -> InputTopics:
    return InputTopics(ids, begins, ends)


def at(*offsets: int) -> Offsets:
    return {"logs": {str(partition): offset for partition, offset in enumerate(offsets)}}


def test_a_topic_with_another_id_is_read_from_its_beginning_also_when_it_has_grown_past_the_old_offset() -> None:
    assert corrected(at(89, 5), {"logs": "old"}, there(at(0, 0), at(500, 700), logs="new")) == at(0, 0)


def test_a_topic_with_the_same_id_goes_on_where_it_was_also_after_retention() -> None:
    assert corrected(at(89, 5), {"logs": "same"}, there(at(400, 0), at(500, 5), logs="same")) == {}


def test_without_ids_an_end_below_the_old_offset_is_the_proof_for_the_whole_topic() -> None:
    now = there(at(0, 3), at(32, 900))
    assert corrected(at(89, 5), {}, now) == at(0, 3)
    assert corrected(at(89, 5), {"logs": NO_ID}, now) == at(0, 3)
    assert corrected(at(89, 5), {}, there(at(0, 3), at(89, 900))) == {}


def test_the_first_start_that_keeps_ids_sees_an_end_below_the_old_offset_all_the_same() -> None:
    assert corrected(at(89, 5), {}, there(at(0, 0), at(32, 900), logs="new")) == at(0, 0)


def test_with_the_same_id_only_the_partition_that_lost_its_end_is_read_again() -> None:
    """A broker that was out of sync has become the leader."""
    assert corrected(at(89, 5), {"logs": "same"}, there(at(10, 0), at(80, 900), logs="same")) == at(10, 5)


def test_a_topic_that_was_made_again_may_have_other_partitions() -> None:
    assert corrected(at(89, 5, 7), {"logs": "old"}, there(at(0), at(1), logs="new")) == at(0)
    assert corrected(at(89), {"logs": "old"}, there(at(0, 0), at(1, 1), logs="new")) == at(0, 0)


def test_a_topic_that_is_not_there_is_left_to_the_preflight() -> None:
    assert corrected(at(89), {"logs": "old"}, there({}, {})) == {}
