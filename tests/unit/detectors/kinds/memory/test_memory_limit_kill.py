"""A process that was killed for its memory: which lines prove it, and which other ends are no such kill."""

import pytest

from detectors.events.vocabulary import match
from tests.unit.detectors.story import MINUTE, SECOND, story

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
