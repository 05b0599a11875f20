"""Three samples in a row close what samples have opened, however far apart they are."""

from detectors.flink.calm import ENOUGH_SAMPLES, CalmSamples


def test_three_samples_in_a_row_are_enough_and_one_that_is_not_calm_starts_again() -> None:
    calm = CalmSamples()
    for n, good in enumerate([True, True, False, True, True]):
        calm.take(good, 60_000 * n)
        assert not calm.enough()
    calm.take(True, 300_000)
    assert calm.enough()
    assert (calm.since, calm.last, calm.count) == (180_000, 300_000, ENOUGH_SAMPLES)


def test_samples_that_come_quickly_need_a_time_as_well() -> None:
    calm = CalmSamples()
    for n in range(6):
        calm.take(True, 1_000 * n)
    assert calm.enough(5_000)
    assert not calm.enough(5_001)


def test_the_same_sample_again_or_a_late_one_does_not_count() -> None:
    calm = CalmSamples()
    for time in (10, 10, 10, 5, 20):
        calm.take(True, time)
    assert calm.count == 2
