"""Metaspace: the error itself, and the staircase of deployments that leads to it."""

import pytest

from tests.unit.detectors.story import MINUTE, SECOND, Story, Thrown, story

METASPACE: Thrown = ("java.lang.OutOfMemoryError", "Metaspace", "")
TM = "tm-1:6122-aaaaaa"
LABELS = {"tm_id": "tm_1:6122_aaaaaa", "host": "tm_1"}
MB = 1e6


def metaspace() -> Story:
    return story("metaspace_exhaustion")


def deployments(*levels: float, limit: float = 84, after: float = 75) -> Story:
    """Metaspace (MB) before each deployment and after the last one, a minute apart."""
    jm = metaspace()
    for n, level in enumerate([*levels, after]):
        jm.at(n * MINUTE).measure("metaspace_max", limit * MB, **LABELS)
        jm.gap(1).measure("metaspace_used", level * MB, **LABELS)
        if n < len(levels):
            jm.runs(n * MINUTE + 10 * SECOND, job=f"{n:032x}")
    return jm


def test_the_error_in_an_out_file_belongs_to_the_taskmanager_of_its_host() -> None:
    history = (
        metaspace().by("tm-1").line("tm_started", 0, tm=TM).by("tm-1:out", host="tm-1").stack(METASPACE, at=MINUTE)
    )
    assert [(f.kind, f.subject) for f in history.transitions(2 * MINUTE)[-1].findings] == [("metaspace_exhaustion", TM)]


def test_heap_and_other_failures_are_not_this() -> None:
    heap = ("java.lang.OutOfMemoryError", "Java heap space", "")
    other = metaspace().task_failed(heap, at=MINUTE, tm=TM, host="tm-1")
    other.task_failed(("java.lang.RuntimeException", "Metaspace", ""), at=2 * MINUTE, tm=TM, host="tm-1")
    assert other.transitions() == []


def test_a_staircase_is_warned_of_when_the_next_step_is_too_much() -> None:
    transitions = deployments(38, 54, 64).transitions(4 * MINUTE)
    assert [(t.transition, t.cause, t.severity) for t in transitions] == [("opened", "metaspace_exhaustion", "warning")]
    assert "uses 75 of 84 MB Metaspace after 3 deployments" in transitions[0].summary
    assert transitions[0].findings[0].series is not None


@pytest.mark.parametrize(
    ("levels", "limit", "after"),
    [
        ((38, 54, 64), 256, 75),
        ((210, 211, 212), 256, 213),
        ((38, 75, 40), 84, 76),
        ((38, 72, 72), 84, 72),
        ((38,), 84, 76),
    ],
    ids=["far from the limit", "hardly grows", "comes down", "flat", "one large job"],
)
def test_other_courses_of_metaspace_are_healthy(levels: tuple[float, ...], limit: float, after: float) -> None:
    assert deployments(*levels, limit=limit, after=after).transitions(10 * MINUTE) == []


def test_a_warning_becomes_critical_with_the_error_and_stays_one_incident() -> None:
    history = deployments(38, 54, 64).by("tm-1").line("tm_started", 0, tm=TM).stack(METASPACE, at=4 * MINUTE)
    transitions = history.transitions(5 * MINUTE)
    assert [(t.transition, t.severity) for t in transitions] == [("opened", "warning"), ("updated", "critical")]
    assert "has no Metaspace left" in transitions[-1].summary


def test_a_warning_ends_when_classes_are_unloaded_or_the_process_is_replaced() -> None:
    unloaded = deployments(38, 54, 64)
    for n in range(3):
        assert unloaded.transitions(7 * MINUTE)[-1].transition == "opened", "too few samples"
        unloaded.measure("metaspace_used", 30 * MB, (300 + 30 * n) * SECOND, **LABELS)
    assert unloaded.transitions(8 * MINUTE)[-1].transition == "resolved"
    replaced = deployments(38, 54, 64).line("tm_registered", 5 * MINUTE + SECOND, tm="tm-1:6122-bbbbbb")
    replaced.by("tm-1").line("tm_started", 5 * MINUTE, tm="tm-1:6122-bbbbbb")
    assert replaced.transitions(7 * MINUTE)[-1].transition == "resolved"
