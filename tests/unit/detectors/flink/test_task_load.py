"""What is said of the load of a task: its input rates, where its busy subtasks run, and how they are described."""

import pytest

from detectors.flink.task_load import BusySubtask, TaskLoad, measured, place, skew
from detectors.flink.topology import Topology


def task(rates: dict[str, float], *hot: str, value: float = 950.0) -> TaskLoad:
    """A task whose subtasks read so many records a second; `hot` ones are busy on one TaskManager."""
    own = TaskLoad("map")
    for subtask, rate in rates.items():
        own.count(subtask, 0, 1_000)
        if rate >= 0:
            own.count(subtask, rate * 10, 11_000)
    own.hot = {subtask: BusySubtask(0, 0, value, "tm_1", "host") for subtask in hot}
    return own


def rate(*counted: tuple[int, float]) -> float:
    own = TaskLoad("map")
    for time, total in counted:
        own.count("0", total, time)
    return own.inputs["0"].rate


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ([(0, 5)], -1.0),
        ([(0, 5), (999, 50)], -1.0),
        ([(0, 5), (1_000, 55)], 50.0),
        ([(5_000, 100), (15_000, 400)], 30.0),
        ([(5_000, 100), (15_000, 100)], 0.0),
        ([(0, 5), (1_000, 55), (2_000, 10)], -1.0),
        ([(0, 5), (1_000, 55), (2_000, 10), (4_000, 20)], 5.0),
    ],
)
def test_the_rate_is_per_second_and_begins_again_with_a_new_attempt(
    counted: list[tuple[int, float]], expected: float
) -> None:
    assert rate(*counted) == expected


def test_five_hundred_and_twelve_subtasks_are_counted() -> None:
    assert len(task({str(n): -1 for n in range(600)}).inputs) == 512


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({}, None),
        ({"0": 10}, None),
        ({"0": 10, "1": -1}, None),
        ({"0": 10, "1": 10, "2": 40}, 4.0),
        ({"0": 10, "1": 20, "2": 30, "3": 50}, 2.0),
        ({"0": 0, "1": 0, "2": 9}, None),
        ({"0": 0, "1": 0.5, "2": 1}, 2.0),
    ],
)
def test_the_skew_is_the_highest_rate_by_the_median(rates: dict[str, float], expected: float | None) -> None:
    assert skew(task(rates)) == expected


def test_the_place_is_known_where_all_busy_subtasks_are_on_one_taskmanager() -> None:
    topology = Topology()
    own = task({}, "0", "1")
    assert place(own, topology) == ("tm_1", "host")
    own.hot["2"] = BusySubtask(0, 0, 1.0, "tm_2", "host")
    assert place(own, topology) == ("", "")
    assert place(TaskLoad("map"), topology) == ("", "")


@pytest.mark.parametrize(
    ("own", "has_busy", "text"),
    [
        (task({}, "3"), True, "1 subtask (3) busy 95 % of the time"),
        (task({"0": -1}, "0"), False, "1 of 1 subtask (0) with full input buffers"),
        (task({"0": -1, "1": -1}, "0"), False, "1 of 2 subtasks (0) with full input buffers"),
        (task({"0": -1}, "10", "9"), False, "2 subtasks (9, 10) with full input buffers"),
        (task({}, *"543210"), True, "6 subtasks (0, 1, 2, 3 …) busy 95 % of the time"),
        (task({}, *"3210"), True, "4 subtasks (0, 1, 2, 3) busy 95 % of the time"),
        (
            task({"0": 30, "1": 10}, "0"),
            True,
            "1 of 2 subtasks (0) busy 95 % of the time, reading 75% of its input (fair share 50%)",
        ),
        (task({"0": 11, "1": 9}, "0"), True, "1 of 2 subtasks (0) busy 95 % of the time"),
        (task({"0": 30, "1": 10}, "0", "1"), True, "2 of 2 subtasks (0, 1) busy 95 % of the time"),
        (task({"0": 0, "1": 0}, "0"), True, "1 of 2 subtasks (0) busy 95 % of the time"),
    ],
)
def test_busy_subtasks_are_described_with_their_share(own: TaskLoad, has_busy: bool, text: str) -> None:
    assert measured(own, has_busy) == text
