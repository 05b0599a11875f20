"""A clock that is set back under the query, which then has to be started again."""

import pytest

from streaming.errors import RestartNeededError
from streaming.job.clock_set_back import ClockWatch


class Host:
    def __init__(self) -> None:
        self.ahead, self.counted = 1_000.0, 50.0
        self.clock = ClockWatch(lambda: self.counted + self.ahead, lambda: self.counted)

    def later(self, seconds: float, ahead: float) -> None:
        self.counted += seconds
        self.ahead += ahead
        self.clock.look()


@pytest.mark.parametrize("forward", [0.0, 3_600.0])
def test_a_clock_that_was_set_back_is_noticed(forward: float) -> None:
    host = Host()
    host.later(1, forward)
    host.later(600, 0)
    with pytest.raises(RestartNeededError, match="set back by 3600 s"):
        host.later(1, -3_600)


def test_steps_in_a_row_add_up() -> None:
    host = Host()
    host.later(1, -4)
    with pytest.raises(RestartNeededError, match="8 s"):
        host.later(1, -4)


def test_a_clock_that_is_right_or_set_forward_or_stepped_by_ntp_is_left_alone() -> None:
    host = Host()
    for ahead in (0.0, 86_400.0, -3.0, 3.0, -3.0):
        host.later(10, ahead)
