"""A process that was killed for its memory: which lines prove it, and which other ends are no such kill."""

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from detectors.events.vocabulary import match
from detectors.incident import Transition
from tests.unit.detectors.containers import POD, Contained
from tests.unit.detectors.story import MINUTE, SECOND, story
from tests.unit.detectors.streams import START

HADOOP_3 = (
    "Container [pid=21876,containerID=container_e47_1654843011567_0042_01_000002] is running 11714560B beyond the "
    "'PHYSICAL' memory limit. Current usage: 3.0 GB of 3 GB physical memory used; 6.1 GB of 6.3 GB virtual memory "
    "used. Killing container."
)
HADOOP_2 = (
    "Container [pid=8,containerID=container_1654843011567_0042_01_000002] is running beyond virtual memory limits. "
    "Current usage: 1.0 GB of 3 GB physical memory used; 6.4 GB of 6.3 GB virtual memory used. Killing container."
)


@pytest.mark.parametrize(
    ("line", "used"), [(HADOOP_3, "3.0 GB of 3 GB physical"), (HADOOP_2, "6.4 GB of 6.3 GB virtual")]
)
def test_yarns_kill_is_read_from_the_nodemanager_and_from_diagnostics(line: str, used: str) -> None:
    killed = match.match_anywhere(f"2022-06-15 05:25:33,348 WARN org.apache.hadoop.ContainersMonitorImpl: {line}")
    assert killed is not None
    both = story("memory_limit_kill", "taskmanager_lost").by("nm").line(killed[0], MINUTE, **killed[1])
    assert used in both.transitions(2 * MINUTE)[0].summary
    worker = match.match(f"Worker {killed[1]['tm']} is terminated. Diagnostics: [2022]{line}")
    assert worker is not None
    diagnostics = worker[0], MINUTE + SECOND
    both.by("jm").line(*diagnostics, **worker[1])
    jm = story("memory_limit_kill", "taskmanager_lost").line(*diagnostics, **worker[1])
    assert {t.incident for t in both.transitions(2 * MINUTE)} == {both.transitions(2 * MINUTE)[0].incident}
    for history in (both, jm):
        assert history.transitions(2 * MINUTE)[-1].cause == "memory_limit_kill"


def test_kubernetes_kill_is_distinguished_from_other_ends_of_a_pod() -> None:
    def ended(status: str) -> list[str]:
        reason = f"Pod terminated, statuses: [main({status})], failed"
        jm = story("memory_limit_kill").line("tm_closed", MINUTE, tm="orders-taskmanager-1-3", reason=reason)
        return jm.opened(2 * MINUTE)

    assert ended("exitCode=137, reason=OOMKilled, message=null") == ["memory_limit_kill"]
    assert ended("exitCode=137, reason=Error, message=null") == []


def warned(share: Callable[[int], float], minutes: int, **more: Any) -> list[Transition]:
    history = Contained("memory_limit_kill").line("tm_registered", 0, tm=POD)
    return history.memory(share, minutes, **more).transitions(minutes * MINUTE)


def noisy(share: Callable[[int], float], noise: float = 0.003) -> Callable[[int], float]:
    chance = Random(1)
    return lambda minute: share(minute) + chance.gauss(0, noise)


def leak(minute: int) -> float:
    """Level for two hours, then nearly the whole limit within eight hours."""
    return 0.7 + 0.29 * max(0, minute - 120) / 480


@pytest.mark.parametrize("every", [1, 2])
def test_a_container_whose_memory_rises_to_its_limit_is_warned_of_with_the_time_that_is_left(every: int) -> None:
    (opened,) = warned(noisy(leak), 570, every=every)
    assert (opened.transition, opened.severity) == ("opened", "warning")
    assert opened.findings[0].subject == opened.findings[0].entity["tm_id"] == POD
    assert "uses 95% of its memory limit of 1,907 MiB" in opened.summary
    forecast = opened.findings[0].forecast
    assert forecast is not None
    assert abs(forecast.at - (START + 617 * MINUTE)) < 20 * MINUTE


@pytest.mark.parametrize(
    "share",
    [
        lambda minute: 0.95,
        lambda minute: 0.98,
        lambda minute: 0.94 - 0.6 * math.exp(-minute / 90),
        lambda minute: min(0.4 + 0.53 * minute / 200, 0.93),
        lambda minute: 0.7 if minute < 200 else 0.97,
        lambda minute: 0.5 + 0.3 * minute / 600,
        lambda minute: 0.9 + 0.09 * (minute % 60) / 60,
    ],
    ids=["level", "level at the limit", "fills up", "fills up evenly", "a step", "far from the limit", "a sawtooth"],
)
def test_memory_that_is_high_and_does_not_rise_is_healthy(share: Callable[[int], float]) -> None:
    assert warned(noisy(share), 600) == []


def test_a_container_without_a_limit_is_never_warned_of() -> None:
    assert warned(noisy(leak), 600, limit=0) == []


def test_the_warning_ends_when_the_memory_falls_or_stays_where_it_is() -> None:
    falls = warned(noisy(lambda minute: leak(minute) if minute < 560 else 0.7), 600)
    assert [t.transition for t in falls] == ["opened", "resolved"]
    assert "it is down to 1,3" in falls[-1].findings[0].closed_because
    stays = warned(noisy(lambda minute: min(leak(minute), 0.97)), 1_400)
    assert [t.transition for t in stays if t.transition != "updated"] == ["opened", "resolved"]
    assert "it has stayed at about 1,8" in stays[-1].findings[0].closed_because


def test_the_kill_after_the_warning_is_the_same_incident_and_explains_the_loss() -> None:
    history = Contained("memory_limit_kill", "taskmanager_lost").line("tm_registered", 0, tm=POD)
    history.memory(noisy(leak), 600)
    reason = "Pod terminated, statuses: [main(exitCode=137, reason=OOMKilled, message=null)], failed"
    history.line("tm_closed", 601 * MINUTE, tm=POD, reason=reason)
    transitions = history.transitions(603 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert (transitions[-1].cause, transitions[-1].severity) == ("memory_limit_kill", "critical")
    assert "was killed for exceeding" in transitions[-1].summary


def test_the_container_of_a_jobmanager_is_warned_of() -> None:
    history = Contained("memory_limit_kill").line("tm_registered", 0, tm=POD)
    opened = history.memory(noisy(leak), 600, pod="orders-6c9d8b7f5d-x2lqp").transitions(600 * MINUTE)[0]
    assert opened.findings[0].subject == "jm|orders-6c9d8b7f5d-x2lqp"
    assert "the container of JobManager orders-6c9d8b7f5d-x2lqp uses" in opened.summary
