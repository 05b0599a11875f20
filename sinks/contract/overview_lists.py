"""The lists of an overview, in the order in which every receiver shows them; each renders the rows in its markup."""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from detectors.incident import Silenced
from sinks.contract.overview import Overview, OverviewRow

T = TypeVar("T")


class RenderRow(NamedTuple, Generic[T]):
    """What makes a row of an open incident, of one that recurs, of a name with its number, and of a silence."""

    incident: Callable[[OverviewRow], T]
    recurring: Callable[[OverviewRow], T]
    numbered: Callable[[str, int], T]
    silence: Callable[[Silenced], T]


class OverviewList(NamedTuple, Generic[T]):
    """A list that is not empty. `more` is the number of its rows that are not shown."""

    title: str
    rows: list[T]
    more: int


def overview_lists(found: Overview, most: int, render: RenderRow[T]) -> Iterator[OverviewList[T]]:
    """The lists with at most so many rows of each."""

    def counts(numbers: list[tuple[str, int]]) -> list[T]:
        return [render.numbered(name, number) for name, number in numbers[:most]]

    labels, ending = found.feedback.not_an_incident, found.silences_ending
    lists = (
        ("Open", found.still_open, [render.incident(row) for row in found.open[:most]]),
        ("Recurring", len(found.recurring), [render.recurring(row) for row in found.recurring[:most]]),
        ("Most frequent kinds", len(found.kinds), counts(found.kinds)),
        ("Jobs with most incidents", len(found.jobs), counts(found.jobs)),
        ("Silences that end soon", len(ending), [render.silence(one) for one in ending[:most]]),
        ("Marked as not an incident", len(labels), counts(labels)),
    )
    yield from (OverviewList(title, rows, total - len(rows)) for title, total, rows in lists if rows)
