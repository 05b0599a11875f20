"""After a fatal error or an OutOfMemoryError the end of a process only looks orderly, for every kind."""

import pytest

from tests.unit.detectors.story import NO_SLOTS, PLANNED, Story, Thrown
from tests.unit.detectors.streams import START

HEAP: Thrown = ("java.lang.OutOfMemoryError", "Java heap space", "")
METASPACE: Thrown = ("java.lang.OutOfMemoryError", "Metaspace", "")
REMOTE: Thrown = ("org.apache.flink.runtime.rpc.exceptions.RpcRuntimeException", "A remote call failed.", "")
TM = "tm-1:6122-aaaaaa"


class Cluster(Story):
    """A JobManager that leads a job, and how it ends."""

    def working(self) -> "Cluster":
        self.line("tm_registered", tm=TM).by("tm-1").line("tm_started", tm=TM).by("jm")
        return self.runs().gap("10 s").checkpoints(3, every="10 s")

    def hook(self) -> "Cluster":
        """Its shutdown hook writes what an orderly end writes."""
        return self.line("cluster_ending", what="StandaloneSessionClusterEntrypoint", status="UNKNOWN").gap("100 ms")

    def ends(self, dies: bool) -> "Cluster":
        """In an orderly way, or after an error whose line comes first."""
        return (self.line("process_fatal").stack(HEAP) if dies else self).gap("300 ms").hook()

    def signalled(self) -> "Cluster":
        return self.line("process_signalled", signal="15").gap("100 ms")


def cluster(*kinds: str) -> Cluster:
    return Cluster(*kinds).working()


def test_the_end_of_a_healthy_jobmanager_is_orderly() -> None:
    assert cluster("jobmanager_lost").signalled().hook().opened("10 min") == []
    assert cluster("jobmanager_lost").hook().opened("10 min") == []


@pytest.mark.parametrize("thrown", [HEAP, METASPACE], ids=["heap", "metaspace"])
def test_a_jobmanager_that_ends_after_its_own_outofmemoryerror_is_lost(thrown: Thrown) -> None:
    history = cluster("jobmanager_lost").stack(thrown).gap("300 ms").hook()
    (opened,) = history.transitions("10 min")[:1]
    assert (opened.cause, opened.severity) == ("jobmanager_lost", "critical")


def test_a_fatal_error_of_a_thread_is_the_reason() -> None:
    history = cluster("jobmanager_lost").line("process_fatal").stack(HEAP).gap("300 ms").hook().signalled()
    transitions = history.transitions("10 min")
    assert transitions[0].summary.startswith("JobManager jm is lost: it stopped with OutOfMemoryError: Java heap space")
    assert "resolved" not in {t.transition for t in transitions}
    assert 31_000 <= transitions[0].at - START <= 44_000


def test_a_fatal_error_of_a_taskmanager_is_no_loss_of_the_jobmanager() -> None:
    history = cluster("jobmanager_lost").by("tm-1").line("process_fatal").stack(HEAP).gap("1 s").signalled()
    assert history.opened("10 min") == []


def test_an_error_that_is_quoted_or_long_past_does_not_make_an_end_disorderly() -> None:
    assert cluster("jobmanager_lost").stack(REMOTE, HEAP).gap("1 s").hook().opened("10 min") == []
    assert cluster("jobmanager_lost").stack(HEAP).gap("10 min").checkpoint().gap("1 s").hook().opened("20 min") == []
    assert cluster("jobmanager_lost").by("other").stack(HEAP).by("jm").gap("1 s").hook().opened("10 min") == []


def test_what_an_orderly_end_would_explain_is_reported() -> None:
    """The same lines without the error report nothing."""
    for dies in (False, True):
        lost = cluster("taskmanager_lost").line("tm_timed_out", tm=TM).gap("100 ms")
        failed = cluster("job_failed").state("FAILING").stack(PLANNED).state("FAILED", "FAILING").gap("100 ms")
        troubled = cluster("ha_connection_lost").line("ha_suspended").gap("100 ms")
        missing = cluster("jobmanager_lost").by("tm-1").line("jm_address", address="jm:6123").gap("1 s")
        missing.line("jm_timed_out", peer="JobManager").line("jm_timed_out", peer="ResourceManager").by("jm")
        for history in (lost, failed, troubled, missing):
            history.ends(dies)
        opened = [history.opened("10 min") for history in (lost, failed, troubled, missing)]
        kinds = ["taskmanager_lost", "job_failed", "ha_connection_lost", "jobmanager_lost"]
        assert opened == [[kind] if dies else [] for kind in kinds]


def test_telemetry_of_the_taskmanagers_is_still_expected() -> None:
    for dies in (False, True):
        history = cluster("telemetry_lost")
        for n in range(40):
            at = (40 + 15 * n) * 1_000
            history.measure("registered_task_managers", 2.0, at, host="jm-2")
            for tm in ("tm-1", "tm-2") if n < 20 else ("tm-2",):
                history.measure("heap_used", 1.0, at, tm_id=tm)
        history.at("330 s").ends(dies)
        assert ("telemetry_lost" in history.opened("11 min")) == dies


def test_a_loss_reported_by_taskmanagers_is_not_taken_back_by_the_hook() -> None:
    history = cluster("jobmanager_lost").by("tm-1").line("jm_address", address="jm:6123").gap("1 s")
    history.line("jm_timed_out", peer="JobManager").line("jm_timed_out", peer="ResourceManager").gap("70 s").by("jm")
    history.stack(HEAP).gap("300 ms").hook()
    assert [t.transition for t in history.transitions("4 min") if t.transition != "updated"] == ["opened"]


@pytest.mark.parametrize("line", ["process_fatal", "jm_fatal", ""])
def test_an_error_a_second_after_its_end_shows_that_the_end_was_not_orderly(line: str) -> None:
    """The threads of a process without memory overtake each other."""

    def lost() -> Cluster:
        history = cluster("jobmanager_lost").gap("1 min")
        for tm in ("tm-1", "tm-2"):
            history.by(tm).line("jm_address", address="jm:6123").gap("1 s")
            history.line("jm_timed_out", peer="JobManager").line("jm_timed_out", peer="ResourceManager")
        return history.gap("70 s").by("jm")

    def dies(history: Cluster) -> Cluster:
        return (history.line(line) if line else history).stack(HEAP)

    assert [t.transition for t in lost().hook().transitions("4 min")] == ["opened", "resolved"]
    assert [t.transition for t in dies(lost().hook().gap("1 s")).transitions("4 min")] == ["opened"]
    assert dies(cluster("jobmanager_lost").hook().gap("10 s")).opened("4 min") == ["jobmanager_lost"]
    assert dies(cluster("jobmanager_lost").signalled().hook().gap("1 s")).opened("4 min") == []


def test_slots_that_are_missing_after_it_are_not_those_of_a_planned_stop() -> None:
    delay = {}
    for dies in (False, True):
        (opened,) = cluster("slots_unavailable").ends(dies).gap("5 s").restart(NO_SLOTS).transitions("10 min")[:1]
        delay[dies] = opened.at - START
    assert delay[False] - delay[True] >= 50_000
