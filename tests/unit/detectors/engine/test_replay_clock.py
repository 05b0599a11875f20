"""Whose clock drives a replay."""

from hypothesis import given
from hypothesis import strategies as st

from detectors.engine.replay_clock import SLACK_MS, trusted_clock

HOUR = 3_600_000


def test_one_producer_an_hour_ahead_does_not_drive_the_clock() -> None:
    arrivals = [(s, n * 1_000 + (HOUR if s == "ahead" else 0)) for n in range(60) for s in ("a", "ahead", "b")]
    assert max(trusted_clock(arrivals)) == 59_000


def test_one_producer_an_hour_behind_does_not_hold_the_clock() -> None:
    arrivals = [(s, n * 1_000 + (0 if s == "behind" else HOUR)) for n in range(60) for s in ("a", "behind", "b")]
    assert trusted_clock(arrivals)[-1] == HOUR + 59_000


def test_a_line_held_back_for_minutes_does_not_discredit_the_others() -> None:
    arrivals = [(s, n * 1_000) for n in range(600) for s in ("jm", "tm")]
    arrivals.insert(1_000, ("tm", 5_000))
    assert trusted_clock(arrivals)[-1] == 599_000


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10 * SLACK_MS))))
def test_the_clock_never_runs_back_nor_ahead_of_all_that_has_come(arrivals: list[tuple[str, int]]) -> None:
    clocks = trusted_clock(arrivals)
    assert len(clocks) == len(arrivals)
    assert clocks == sorted(clocks)
    latest = max((t for _, t in arrivals), default=0)
    assert all(clock <= latest for clock in clocks)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, SLACK_MS)), min_size=1))
def test_sources_within_the_slack_are_all_believed(arrivals: list[tuple[str, int]]) -> None:
    assert trusted_clock(arrivals)[-1] == max(t for _, t in arrivals)
