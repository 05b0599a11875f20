"""What the kinds about one process's memory share, shown by one of them."""

import pytest

from detectors.incident import Finding
from detectors.patterns.per_process import ProcessRef, named, recurrence, writer
from tests.unit.detectors.story import HOUR, MINUTE, SECOND, START, Followed, Thrown, follow

DIRECT: Thrown = ("java.lang.OutOfMemoryError", "Direct buffer memory", "")
LONGER: Thrown = ("java.lang.OutOfMemoryError", "Direct buffer memory (allocated: 1, limit: 2)", "")
TM, OTHER_TM = "tm-1:6122-aaaaaa", "tm-1:6122-bbbbbb"
NAMED = {"tm": TM, "host": "tm-1"}
WITHIN = 5 * SECOND
LAG = 100
"""What a line needs to reach Kafka. A line of a stack trace has no time of its own, so a sign is so much later."""


def exhausted() -> Followed:
    return follow("direct_memory_exhaustion")


def sign(history: Followed, at: int, thrown: Thrown = DIRECT, **place: str) -> list[Finding]:
    """The findings of one failing task, in the log of the process `by`, else in the JobManager's with a place."""
    if by := place.pop("by", ""):
        return history.by(by).stack(thrown, at=at).findings()
    return history.by("jm").task_failed(thrown, at=at, **(place or NAMED)).findings()


def ended(history: Followed, at: int) -> list[Finding]:
    history.by("jm").completed(1, at)
    return [f for f in history.findings() if f.closed_at]


def test_a_constant_period_is_reported() -> None:
    assert recurrence([0, HOUR]) == ""
    assert recurrence([0, HOUR, 2 * HOUR]) == "; 3 times so far, every 1 h: a constant period points to a leak"
    assert recurrence([0, HOUR, 5 * HOUR]) == "; 3 times so far, not regularly"
    assert "every" in recurrence([0, 100 * MINUTE, 235 * MINUTE])
    assert "not regularly" in recurrence([0, 100 * MINUTE, 236 * MINUTE])


def test_only_the_newest_three_gaps_longer_than_a_minute_count() -> None:
    assert recurrence([0, MINUTE, 2 * MINUTE]) == ""
    assert recurrence([0, MINUTE + 1, 2 * MINUTE + 2]) != ""
    irregular_before = [0, 9 * HOUR, *(n * HOUR for n in range(10, 14))]
    assert "every 1 h" in recurrence(irregular_before)
    assert "not regularly" in recurrence([0, 9 * HOUR, 10 * HOUR, 11 * HOUR])


def test_of_many_times_it_says_at_least_how_many() -> None:
    history = exhausted()
    said = []
    for n in range(9):
        (opened,) = sign(history, n * HOUR)
        said.append(opened.summary.partition("; ")[2].partition(",")[0])
        history.completed(n, n * HOUR + 2 * MINUTE).findings()
    assert said == ["", "", *(f"{n} times so far" for n in range(3, 8)), *["at least 8 times so far"] * 2]


def test_a_completed_checkpoint_resolves_it_a_minute_after_the_last_sign() -> None:
    history = exhausted()
    sign(history, 0)
    sign(history, 10 * SECOND)
    assert ended(history, LAG + 70 * SECOND - 1) == []
    (closed,) = ended(history, LAG + 70 * SECOND)
    assert (closed.subject, closed.closed_because) == (TM, "a checkpoint completed 60 s after the last sign")
    assert ended(history, 80 * SECOND) == []


def test_signs_of_before_a_resolved_one_do_not_open_it_again() -> None:
    history = exhausted()
    sign(history, 10 * SECOND)
    ended(history, 2 * MINUTE)
    assert sign(history, 10 * SECOND, LONGER) == []
    assert sign(history, 5 * SECOND) == []
    assert len(sign(history, 10 * SECOND + 1)) == 1


def test_the_newest_of_several_resolved_ones_is_the_end() -> None:
    history = exhausted()
    sign(history, 20 * SECOND)
    sign(history, 10 * SECOND, tm="tm-2:1-c", host="tm-2")
    assert len(ended(history, 2 * MINUTE)) == 2
    assert sign(history, 15 * SECOND) == []


def test_further_signs_count_once_a_second_and_the_longest_text_stays() -> None:
    history = exhausted()
    sign(history, 0)
    assert sign(history, SECOND) == []
    (second,) = sign(history, 2 * SECOND + 1)
    assert second.summary.endswith("(Direct buffer memory), 2 times in 2 s")
    (longer,) = sign(history, 2 * SECOND + 2, LONGER)
    assert LONGER[1] in longer.summary
    (third,) = sign(history, 4 * SECOND)
    assert third.summary.endswith(f"({LONGER[1]}), 3 times in 4 s")


def test_a_sign_that_arrives_late_moves_no_end_back() -> None:
    history = exhausted()
    sign(history, 10 * SECOND)
    sign(history, 5 * SECOND, LONGER)
    assert ended(history, 65 * SECOND) == []


def test_four_records_are_kept_as_evidence_each_once() -> None:
    history = exhausted()
    for n in range(6):
        history.by("jm").task_failed(DIRECT, at=n * 2 * SECOND, **NAMED)
    found = history.findings()
    assert [len(f.evidence) for f in found] == [1, 2, 3, 4, 4, 4]
    assert len({e.offset for e in found[-1].evidence}) == 4


def test_a_sign_that_names_only_a_host_waits_for_one_that_names_the_taskmanager() -> None:
    history = exhausted()
    assert sign(history, 0, by="tm-1") == []
    assert sign(history, SECOND, by="tm-2") == []
    assert [f.subject for f in sign(history, 2 * SECOND)] == [TM]
    assert history.until(MINUTE).findings() == []


def test_without_one_it_is_reported_of_the_host_after_five_seconds() -> None:
    history = exhausted()
    sign(history, 0, by="tm-2")
    sign(history, SECOND, by="tm-1")
    sign(history, 2 * SECOND, LONGER, by="tm-2")
    due = history.detector.next_deadline(history.view)
    assert due == START + LAG + WITHIN
    assert history.until(LAG + WITHIN - 1).findings() == []
    (first,) = history.until(LAG + WITHIN).findings()
    assert (first.subject, first.since) == ("tm-2", START + LAG)
    assert first.summary == "a process on host tm-2 has no direct memory left (Direct buffer memory)"
    assert history.detector.next_deadline(history.view) == START + LAG + SECOND + WITHIN
    assert [f.subject for f in history.until(MINUTE).findings()] == ["tm-1"]
    assert history.until(2 * MINUTE).findings() == []


def test_after_a_named_sign_one_of_a_host_is_its_copy_for_five_seconds() -> None:
    history = exhausted()
    sign(history, 0)
    sign(history, WITHIN, by="tm-2")
    assert history.detector.next_deadline(history.view) is None
    sign(history, WITHIN + 1, by="tm-2")
    assert history.detector.next_deadline(history.view) is not None


def test_further_signs_of_a_host_that_is_known_do_not_wait() -> None:
    history = exhausted()
    sign(history, 0, by="tm-2")
    history.until(MINUTE).findings()
    assert [f.subject for f in sign(history, 2 * MINUTE, by="tm-2")] == ["tm-2"]


def test_a_message_names_what_is_known_of_a_process_without_saying_the_host_twice() -> None:
    known = exhausted().by("jm").task_failed(DIRECT, at=0, **NAMED)
    (process,) = known.view.state.open.values()
    assert named(process) == f"TaskManager {TM}"
    process.host = "node-7"
    assert named(process) == f"TaskManager {TM} on host node-7"
    process.host = ""
    assert named(process) == f"TaskManager {TM}"
    process.tm, process.host = "", "node-7"
    assert named(process) == "a process on host node-7"


@pytest.mark.parametrize(
    ("started", "by", "place"),
    [
        pytest.param([], "tm-1", ProcessRef("", "tm-1"), id="only the host is known"),
        pytest.param([TM], "tm-1:out", ProcessRef(TM, "tm-1"), id="the one TaskManager of the host"),
        pytest.param([TM, OTHER_TM], "tm-1:out", ProcessRef(OTHER_TM, "tm-1"), id="the newest of the host"),
    ],
)
def test_a_log_that_names_no_taskmanager_is_that_of_its_hosts_newest(
    started: list[str], by: str, place: ProcessRef
) -> None:
    history = exhausted()
    for n, tm in enumerate(started):
        history.by("tm-1").line("tm_started", n * MINUTE, tm=tm)
    history.by(by, "tm-1").stack(DIRECT, at=HOUR)
    assert writer(history.view) == place


def test_a_log_is_that_of_the_process_that_began_it() -> None:
    history = (
        exhausted().by("a", "tm-1").line("tm_started", 0, tm=TM).by("b", "tm-1").line("tm_started", 1, tm=OTHER_TM)
    )
    history.by("a", "tm-1").stack(DIRECT, at=MINUTE)
    assert writer(history.view, attempt="c" * 32) == ProcessRef(TM, "tm-1")


def test_the_log_of_a_container_is_that_of_the_taskmanager_of_the_same_name() -> None:
    container = "container_1650000000000_0001_01_000002"
    history = exhausted().by(container, "node-1").stack(DIRECT, at=MINUTE)
    assert writer(history.view) == ProcessRef(container, "node-1")


def test_the_log_of_a_jobmanager_is_not_that_of_one_of_several_taskmanagers_beside_it() -> None:
    history = exhausted().by("a", "tm-1").line("tm_started", 0, tm=TM)
    history.by("jm", "tm-1").runs(SECOND).stack(DIRECT, at=MINUTE)
    assert writer(history.view) == ProcessRef(TM, "tm-1")
    history.by("b", "tm-1").line("tm_started", 2 * MINUTE, tm=OTHER_TM)
    history.by("jm", "tm-1").stack(DIRECT, at=3 * MINUTE)
    assert writer(history.view) == ProcessRef("", "tm-1")


def test_a_line_that_names_the_taskmanager_has_its_own_host_or_the_one_known() -> None:
    history = exhausted().by("tm-1").line("tm_started", 0, tm=TM)
    history.by("jm").stack(DIRECT, at=MINUTE)
    assert writer(history.view, TM, "other") == ProcessRef(TM, "other")
    assert writer(history.view, TM) == ProcessRef(TM, "tm-1")


def test_an_attempt_says_where_it_ran() -> None:
    task = {"task": "map", "subtask": "1", "parallelism": "2", "attempt": "c" * 32}
    history = exhausted().by("jm").line("task_state", 0, **task, before="CREATED", state="DEPLOYING")
    history.line("task_deploying", 0, **task | {"attempt": ""}, **NAMED).stack(DIRECT, at=MINUTE)
    assert writer(history.view, attempt="c" * 32) == ProcessRef(TM, "tm-1")
    assert writer(history.view, attempt="d" * 32) == ProcessRef("", "jm")
