"""Threads: the error in any words, and the rise that leads to it."""

from collections.abc import Callable
from random import Random

import pytest

from detectors.events.event import Sample
from detectors.events.names import filtered
from tests.unit.detectors.story import HOUR, MINUTE, Story, Thrown, story

OOM = "java.lang.OutOfMemoryError"
NATIVE: list[Thrown] = [
    (OOM, "unable to create new native thread", ""),
    (OOM, "unable to create native thread: possibly out of memory or process/resource limits reached", ""),
]
TM = "tm-1:6122-aaaaaa"
PLACE = {"tm": TM, "host": "tm-1"}
LABELS = {"tm_id": filtered(TM), "host": "tm_1"}


def counted(threads: Callable[[int], float], minutes: int, name: str = "threads", every: int = 1) -> Story:
    """The number of threads at each minute, with a little noise."""
    history, chance = story("thread_exhaustion").line("tm_registered", 0, tm=TM), Random(1)
    labels = LABELS if name == "threads" else {"host": "jm_1"}
    for minute in range(0, minutes, every):
        history.scrape(Sample(name, labels, threads(minute) + chance.randrange(10)), at=minute * MINUTE)
    return history


def leaking(minute: int) -> float:
    """A hundred threads, and from the second hour on two more each minute."""
    return 100 + 2 * max(0, minute - 60)


@pytest.mark.parametrize("fault", NATIVE, ids=["Java 8", "Java 11"])
def test_it_is_known_in_any_words_and_belongs_to_the_taskmanager_named(fault: Thrown) -> None:
    (opened,) = story("thread_exhaustion").task_failed(fault, at=MINUTE, **PLACE).transitions(2 * MINUTE)
    assert (opened.cause, opened.severity) == ("thread_exhaustion", "critical")
    assert opened.findings[0].entity["tm_id"] == TM


def test_other_errors_are_not_this() -> None:
    other = story("thread_exhaustion").task_failed((OOM, "Java heap space", ""), at=MINUTE, **PLACE)
    other.task_failed(("java.lang.RuntimeException", NATIVE[0][1], ""), at=2 * MINUTE, **PLACE)
    assert other.transitions() == []


def test_a_leak_is_warned_of_and_its_error_is_the_same_incident_with_the_number_of_threads() -> None:
    history = counted(leaking, 600)
    (warned,) = history.transitions(600 * MINUTE)
    assert (warned.transition, warned.severity) == ("opened", "warning")
    assert f"the threads of TaskManager {TM} become more and more" in warned.summary
    last = history.task_failed(NATIVE[0], at=601 * MINUTE, **PLACE).transitions(602 * MINUTE)[-1]
    assert (last.incident, last.severity) == (warned.incident, "critical")
    assert "cannot create another thread (1,1" in last.summary


def test_a_jobmanager_is_warned_of_too() -> None:
    (warned,) = counted(leaking, 600, "jm_threads").transitions(600 * MINUTE)
    assert warned.findings[0].subject == "jm|jm_1"


@pytest.mark.parametrize("every", [1, 2, 5])
def test_the_interval_of_scrapes_does_not_matter(every: int) -> None:
    assert counted(leaking, 600, every=every).opened(600 * MINUTE) == ["thread_exhaustion"]


@pytest.mark.parametrize(
    "threads",
    [
        lambda minute: 800,
        lambda minute: 100 + 60 * min(minute // 30, 4),
        lambda minute: 600 * min(minute, 120) / 120,
        lambda minute: 100 + 0.2 * minute,
        lambda minute: 100 + (minute % 120) * 4,
        lambda minute: 100 if minute < 300 else 900,
        lambda minute: 2_000 + 0.8 * minute,
    ],
    ids=["level", "some jobs", "a pool that fills", "slow", "comes and goes", "a large job", "by a small share"],
)
def test_other_courses_are_healthy(threads: Callable[[int], float]) -> None:
    assert counted(threads, 900).transitions(900 * MINUTE) == []


def test_the_warning_ends_when_threads_end_or_become_no_more() -> None:
    back = counted(lambda minute: leaking(minute) if minute < 500 else 120, 540).transitions(600 * MINUTE)
    assert [t.transition for t in back] == ["opened", "resolved"]
    assert "it is down to 12" in back[-1].findings[0].closed_because
    level = counted(lambda minute: leaking(min(minute, 420)), 1_200).transitions(1_200 * MINUTE)
    assert [t.transition for t in level] == ["opened", "resolved"]
    assert "it has stayed at about 8" in level[-1].findings[0].closed_because


def test_the_end_of_the_cluster_ends_the_warning() -> None:
    history = counted(leaking, 600).line("cluster_ending", at=601 * MINUTE)
    assert history.transitions(11 * HOUR)[-1].transition == "resolved"
