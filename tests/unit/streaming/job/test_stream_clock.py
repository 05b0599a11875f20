"""How far a stream has come."""

from detectors.engine import bucket
from streaming.job.rows import Packed
from streaming.job.stream_clock import read_up_to

FAR = 4_000_000_000_000


def test_the_clock_is_that_of_the_least_advanced_partition() -> None:
    packed = [Packed(clocks={"logs/0": 50, "logs/1": 30}, wall=FAR), Packed(clocks={"logs/1": 40}, wall=FAR)]
    assert read_up_to(bucket.BucketIndex(), packed) == (40, 50)


def test_a_producer_whose_clock_is_ahead_does_not_drive_the_clock() -> None:
    """Never past the machine's time."""
    assert read_up_to(bucket.BucketIndex(), [Packed(clocks={"logs/0": 5_000_000}, wall=1_000)]) == (1_000, 1_000)


def test_a_batch_without_records_leaves_the_clock() -> None:
    assert read_up_to(bucket.BucketIndex(clock=7, front=9), [Packed()]) == (7, 9)
