"""What is logged and published of entries that were cut."""

import pytest

from detectors.engine.entries_cut import EntriesCut, news, readings


@pytest.mark.parametrize(
    ("before", "now", "logged"),
    [
        ({}, {}, []),
        ({}, {"jobs": 1}, ["jobs"]),
        ({"jobs": 1}, {"jobs": 1}, []),
        ({"jobs": 1}, {"jobs": 9}, []),
        ({"jobs": 9}, {"jobs": 10}, ["jobs"]),
        ({"jobs": 10}, {"jobs": 99, "taskmanagers": 1}, ["taskmanagers"]),
        ({"jobs": 1}, {"taskmanagers": 5, "jobs": 20}, ["jobs", "taskmanagers"]),
    ],
)
def test_the_first_entry_and_each_further_digit_are_logged(
    before: dict[str, int], now: dict[str, int], logged: list[str]
) -> None:
    assert news("c", before, now) == tuple(EntriesCut("c", what, now[what]) for what in logged)


def test_every_count_is_a_counter_of_the_cluster() -> None:
    found = readings("c", {"taskmanagers": 2, "jobs": 3}, 7)
    assert [(r.key(), r.value, r.at, r.type) for r in found] == [
        ("cluster_entries_cut_total|cluster=c|what=jobs", 3.0, 7, "counter"),
        ("cluster_entries_cut_total|cluster=c|what=taskmanagers", 2.0, 7, "counter"),
    ]
    assert readings("c", {}, 7) == []
