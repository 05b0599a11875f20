"""A full disk: in which words, whose disk it is, which directory, and what it explains."""

import pytest

from detectors.incident import Finding, Transition
from tests.unit.detectors.story import HOUR, MINUTE, SECOND, USER, Story, Thrown, follow, story

FULL = "No space left on device"
TM, OTHER_TM = "tm-1:6122-aaaaaa", "tm-2:6122-bbbbbb"
PLACE = {"tm": TM, "host": "tm-1"}
DB = f"/tmp/tm_{TM}/tmp/job_{'a' * 32}_op_StreamMap_{'b' * 32}__1_2__uuid_0d5a63fa-64a4-4a30-ae37-9c8d3b1b8ae2/db"
IO = "java.io.IOException"
SPILLED: Thrown = (IO, FULL, "")
ROCKSDB: Thrown = (
    "org.rocksdb.RocksDBException",
    f"IO error: {FULL}While appending to file: {DB}/000012.sst: {FULL}",
    "",
)
WORDS: list[Thrown] = [
    SPILLED,
    ROCKSDB,
    ("java.nio.file.FileSystemException", f"{DB}/000012.sst: {FULL}", ""),
    ("java.io.FileNotFoundException", "/mnt/state/chk-7/_metadata (Disk quota exceeded)", ""),
    (IO, "There is not enough space on the disk", ""),
]


def full(*more: str) -> Story:
    return story("disk_full", *more)


def last(history: Story, until: int = 3 * MINUTE) -> Transition:
    return history.transitions(until)[-1]


def only(history: Story) -> Finding:
    (finding,) = last(history).findings
    return finding


def test_other_failures_and_a_file_system_without_datanodes_are_not_this() -> None:
    history = full().task_failed(USER, at=MINUTE, **PLACE)
    history.task_failed((IO, "Too many open files", ""), at=2 * MINUTE, **PLACE)
    hdfs = "File /chk-7/_metadata could only be written to 0 of the 1 minReplication nodes."
    history.task_failed(("org.apache.hadoop.ipc.RemoteException", hdfs, ""), at=3 * MINUTE, **PLACE)
    history.task_failed(("java.lang.OutOfMemoryError", "Java heap space", ""), at=4 * MINUTE, **PLACE)
    assert history.opened(HOUR) == []


def test_taskmanagers_that_leave_for_other_reasons_are_not_this() -> None:
    for reason in ("The TaskExecutor is shutting down.", "The node was low on resource: memory.", "Container exited"):
        assert full().line("tm_closed", MINUTE, tm=TM, reason=reason).opened(HOUR) == []


def test_a_line_that_was_sent_again_is_not_another_sign() -> None:
    history = full().task_failed(SPILLED, at=MINUTE, **PLACE)
    assert "times" not in only(history.sent_again("20 s")).summary


@pytest.mark.parametrize("fault", WORDS, ids=lambda f: f[0].rpartition(".")[2] + str(len(f[1])))
def test_it_is_known_in_any_words_and_belongs_to_the_taskmanager_named(fault: Thrown) -> None:
    finding = only(full().task_failed((IO, "Could not flush", ""), fault, at=MINUTE, **PLACE))
    assert (finding.subject, finding.severity) == (TM, "critical")
    assert finding.summary.startswith(f"the disk of TaskManager {TM} is full (")


def test_the_directory_is_shown_and_the_error_is_not_cut() -> None:
    finding = only(full().task_failed(SPILLED, ROCKSDB, at=MINUTE, **PLACE))
    assert finding.summary == f"the disk of TaskManager {TM} is full ({FULL} in /tmp/tm_{TM}/tmp/…/db)"


def test_the_directory_of_rocksdb_names_the_taskmanager_where_nothing_else_does() -> None:
    history = full().line("tm_registered", 0, tm=TM, host="tm-1")
    assert only(history.by("jm").at(MINUTE).state("FAILING").stack(ROCKSDB)).entity["tm_id"] == TM


def test_a_line_of_the_job_that_names_no_process_blames_none() -> None:
    assert full().at(MINUTE).state("FAILING").stack(SPILLED).opened(HOUR) == []


def test_a_process_that_nothing_names_is_known_by_its_host() -> None:
    history = full().by("jm", "jm-1").line("jm_fatal", MINUTE).stack(SPILLED, at=MINUTE)
    assert "a process on host jm-1" in only(history).summary


def test_an_eviction_for_ephemeral_storage_is_a_full_disk() -> None:
    reason = (
        "Pod terminated, pod status: Failed(reason=Evicted, message=The node was low on resource: ephemeral-storage"
    )
    finding = only(full().line("tm_closed", MINUTE, tm=TM, reason=reason))
    assert finding.subject == TM
    assert "evicted" in finding.summary


def test_disks_of_several_taskmanagers_are_one_incident() -> None:
    history = full().task_failed(SPILLED, at=MINUTE, **PLACE)
    history.task_failed(SPILLED, at=2 * MINUTE, tm=OTHER_TM, host="tm-2")
    assert {f.subject for f in last(history).findings} == {TM, OTHER_TM}
    assert len({t.incident for t in history.transitions(3 * MINUTE)}) == 1


def test_the_loop_that_it_makes_is_its_effect_and_checkpoints_in_between_do_not_resolve_it() -> None:
    history = full("restart_loop", "checkpoint_failing", "job_failed").runs()
    for n in range(1, 8):
        at, attempt = n * 40 * SECOND, f"{n:032x}"
        history.task_failed(ROCKSDB, at=at, attempt=attempt, **PLACE)
        history.line("tasks_restarting", at + 2, failed=attempt).state("RESTARTING", at=at + 2)
        history.triggered(n, at + 20 * SECOND).completed(n, at + 30 * SECOND)
    history.at(5 * MINUTE).state("FAILING").stack(ROCKSDB).gap(5).state("FAILED", "FAILING")
    transitions = history.transitions(6 * MINUTE)
    assert [t.transition for t in transitions if t.transition != "updated"] == ["opened"]
    assert transitions[-1].cause == "disk_full"
    assert {f.kind for f in transitions[-1].findings} == {"disk_full", "restart_loop", "job_failed"}
    loop = next(f.summary for f in transitions[-1].findings if f.kind == "restart_loop")
    assert loop.endswith(f"/tmp/tm_{TM}/tmp/…/000012.sst: {FULL}")


@pytest.mark.parametrize(("signs", "calm"), [((0,), 120), ((0, 10, 50), 120), ((0, 50, 180), 180), ((0, 600), 1_200)])
def test_it_ends_with_a_checkpoint_two_minutes_after_or_twice_as_long_as_the_signs_are_apart(
    signs: tuple[int, ...], calm: int
) -> None:
    history = follow("disk_full")
    for at in signs:
        history.task_failed(SPILLED, at=at * SECOND, **PLACE)
    history.findings()
    assert history.completed(1, (signs[-1] + calm) * SECOND).findings() == []
    (closed,) = history.completed(2, (signs[-1] + calm + 1) * SECOND).findings()
    assert closed.closed_because.endswith("after the last sign")
