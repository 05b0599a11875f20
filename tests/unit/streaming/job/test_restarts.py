"""How often and after what pause a failed query is started again."""

from streaming.job.restarts import Restarts


def test_pauses_double_up_to_a_minute() -> None:
    restarts = Restarts(clock=lambda: 0.0)
    assert [restarts.pause(9) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_limit_of_the_trouble_counts_all_restarts_of_the_last_hour() -> None:
    """A fault that passes leaves no room for one of which nothing is known; after an hour there is room again."""
    now = 0.0
    restarts = Restarts(clock=lambda: now)
    assert [restarts.pause(10) for _ in range(4)] == [1, 2, 4, 8]
    assert restarts.pause(3) is None
    assert restarts.pause(0) is None
    now = 3_601.0
    assert restarts.pause(3) == 1
    assert restarts.count == 1
