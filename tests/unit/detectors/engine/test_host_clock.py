"""What time it is when the clock of the driver's host is set, drifts, or was wrong from its start."""

import pytest

from detectors.engine.host_clock import Heartbeat, HeartbeatClock, current_time

START = 1_700_000_000_000


def begun(run: str = "a") -> HeartbeatClock:
    """A host's clock that has been right so far."""
    clock = HeartbeatClock()
    assert current_time(clock, Heartbeat(run, 10_000, START), 0, 0) == START
    return clock


@pytest.mark.parametrize(
    ("later", "step", "followed"),
    [(0, 500, 1), (10_000, 500, 100), (10_000, -500, -100), (10_000, 60, 60), (10_000, -60, -60), (10_000, 2_000, 100)],
)
def test_a_small_step_is_followed_slowly(later: int, step: int, followed: int) -> None:
    clock = begun()
    assert (
        current_time(clock, Heartbeat("a", 10_000 + later, START + later + step), 0, START) == START + later + followed
    )
    assert clock.wrong == step - followed


@pytest.mark.parametrize("step", [2_001, -2_001, 3_600_000, -86_400_000])
def test_a_clock_that_is_set_is_not_believed_by_itself(step: int) -> None:
    clock = begun()
    assert current_time(clock, Heartbeat("a", 11_000, START + 1_000 + step), 0, START) == START + 1_000
    assert clock.wrong == step
    assert current_time(clock, Heartbeat("a", 12_000, START + 2_000), 0, START) == START + 2_000
    assert clock.wrong == 0


@pytest.mark.parametrize(
    ("step", "others", "believed"),
    [
        (3_600_000, 3_600_000, True),
        (3_600_000, 3_600_000 - 60_000, True),
        (3_600_000, 3_600_000 - 60_001, False),
        (3_600_000, 3_600_000 + 60_000, True),
        (3_600_000, 3_600_000 + 60_001, False),
        (-3_600_000, -3_600_000, True),
        (70_000, 60_001, True),
        (70_000, 60_000, False),
        (2_001, 2_001, False),
    ],
)
def test_a_clock_that_is_set_is_believed_where_the_partitions_show_the_new_time_and_not_the_old_one(
    step: int, others: int, believed: bool
) -> None:
    clock = begun()
    time = current_time(clock, Heartbeat("a", 11_000, START + 1_000 + step), START + 1_000 + others, START)
    assert time == START + 1_000 + (step if believed else 0)


def test_another_process_has_another_clock_that_is_believed() -> None:
    clock = begun()
    current_time(clock, Heartbeat("a", 11_000, START + 1_000), START - 130_000, START)
    assert clock.behind == 11_000
    assert current_time(clock, Heartbeat("b", 500, START + 9_000_000), 0, START) == START + 9_000_000
    assert (clock.wrong, clock.behind) == (0, -1)


@pytest.mark.parametrize(("behind", "goes_back"), [(120_001, True), (120_000, False)])
def test_a_clock_ahead_of_all_that_is_read_for_two_minutes_goes_back(behind: int, goes_back: bool) -> None:
    clock, times = begun(), []
    for second in range(1, 131):
        now = START + second * 1_000
        # The clock stays, because nothing confirms it.
        times.append(current_time(clock, Heartbeat("a", 10_000 + second * 1_000, now), now - behind, now))
    back = [second for second, time in enumerate(times, 1) if time != START + second * 1_000]
    assert back == ([*range(121, 131)] if goes_back else [])
    if goes_back:
        assert times[120] == START + 121_000 - behind
        assert clock.wrong == behind


def test_one_record_near_the_clock_begins_the_two_minutes_again() -> None:
    clock = begun()
    for second in range(1, 200):
        now = START + second * 1_000
        others = now if second == 100 else 0 if second % 7 == 0 else now - 200_000
        assert current_time(clock, Heartbeat("a", 10_000 + second * 1_000, now), others, now) == now
