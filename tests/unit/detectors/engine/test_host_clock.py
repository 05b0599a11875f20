"""What time it is when the clock of the driver's host is set, drifts, or was wrong from its start."""

import pytest

from detectors.engine.host_clock import Heartbeat, HeartbeatClock, heard

START = 1_700_000_000_000


def begun(run: str = "a") -> HeartbeatClock:
    """A host's clock that has been right so far."""
    beats = HeartbeatClock()
    assert heard(beats, Heartbeat(run, 10_000, START), 0, 0) == START
    return beats


@pytest.mark.parametrize(
    ("later", "step", "followed"),
    [(0, 500, 1), (10_000, 500, 100), (10_000, -500, -100), (10_000, 60, 60), (10_000, -60, -60), (10_000, 2_000, 100)],
)
def test_a_small_step_is_followed_slowly(later: int, step: int, followed: int) -> None:
    beats = begun()
    assert heard(beats, Heartbeat("a", 10_000 + later, START + later + step), 0, START) == START + later + followed
    assert beats.wrong == step - followed


@pytest.mark.parametrize("step", [2_001, -2_001, 3_600_000, -86_400_000])
def test_a_clock_that_is_set_is_not_believed_by_itself(step: int) -> None:
    beats = begun()
    assert heard(beats, Heartbeat("a", 11_000, START + 1_000 + step), 0, START) == START + 1_000
    assert beats.wrong == step
    assert heard(beats, Heartbeat("a", 12_000, START + 2_000), 0, START) == START + 2_000
    assert beats.wrong == 0


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
    beats = begun()
    time = heard(beats, Heartbeat("a", 11_000, START + 1_000 + step), START + 1_000 + others, START)
    assert time == START + 1_000 + (step if believed else 0)


def test_another_process_has_another_clock_that_is_believed() -> None:
    beats = begun()
    heard(beats, Heartbeat("a", 11_000, START + 1_000), START - 130_000, START)
    assert beats.behind == 11_000
    assert heard(beats, Heartbeat("b", 500, START + 9_000_000), 0, START) == START + 9_000_000
    assert (beats.wrong, beats.behind) == (0, -1)


@pytest.mark.parametrize(("behind", "goes_back"), [(120_001, True), (120_000, False)])
def test_a_clock_ahead_of_all_that_is_read_for_two_minutes_goes_back(behind: int, goes_back: bool) -> None:
    beats, times = begun(), []
    for second in range(1, 131):
        now = START + second * 1_000
        # The clock stands, since nothing confirms it.
        times.append(heard(beats, Heartbeat("a", 10_000 + second * 1_000, now), now - behind, now))
    back = [second for second, time in enumerate(times, 1) if time != START + second * 1_000]
    assert back == ([*range(121, 131)] if goes_back else [])
    if goes_back:
        assert times[120] == START + 121_000 - behind
        assert beats.wrong == behind


def test_one_record_near_the_clock_begins_the_two_minutes_again() -> None:
    beats = begun()
    for second in range(1, 200):
        now = START + second * 1_000
        others = now if second == 100 else 0 if second % 7 == 0 else now - 200_000
        assert heard(beats, Heartbeat("a", 10_000 + second * 1_000, now), others, now) == now
