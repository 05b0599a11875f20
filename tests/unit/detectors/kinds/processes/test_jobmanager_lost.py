"""When a JobManager is lost, when it only seems so, and what is forecast."""

import pytest

from detectors.events.event import Sample
from detectors.incident import Transition
from tests.unit.detectors.story import JOB, MINUTE, SECOND, Story, Thrown
from tests.unit.detectors.streams import START

JM, OTHER_JM = "jm-1:6123", "jm-2:6123"
AT = 10 * MINUTE


class Cluster(Story):
    """A JobManager that leads, and TaskManagers that have registered with it; something happens to it at AT."""

    def knows(self, *tms: str, at: int = 10, address: str = JM) -> "Cluster":
        """TaskManagers learn the address of the JobManager."""
        for tm in tms:
            self.line("jm_address", at, source=tm, address=address)
        return self

    def gated(self, at: int, tm: str, address: str = JM) -> "Cluster":
        """A connection of a TaskManager is refused."""
        return self.line("rpc_gated", at, source=tm, address=address)

    def silent(self, at: int, tm: str) -> "Cluster":
        """Both heartbeats time out on a TaskManager."""
        for n, peer in enumerate(("JobManager", "ResourceManager")):
            self.line("jm_timed_out", at + n, source=tm, peer=peer)
        return self

    def killed(self, *tms: str) -> "Cluster":
        """The JobManager is killed at AT: connections are refused, heartbeats time out 8 s later."""
        for tm in tms:
            self.gated(AT, tm).silent(AT + 8 * SECOND, tm)
        return self

    def signalled(self, at: int, source: str = "jm", **line: int) -> "Cluster":
        """A process is asked to stop."""
        return self.line("process_signalled", at, source=source, signal="15", **line)

    def takes_over(self, at: int, recovers: bool = True) -> "Cluster":
        """Another JobManager leads, and recovers the job."""
        self.line("leader_granted", at, source="jm-2")
        return self.by("jm-2").runs(at + SECOND).by("jm") if recovers else self

    def registers(self, at: int, source: str, lag: int = 100) -> "Cluster":
        """A TaskManager registers with a JobManager."""
        return self.line("tm_registered", at, source=source, lag=lag, tm="tm-1:1-a", host="tm-1", address="tm-1:1")

    def completes(self, number: int, at: int) -> "Cluster":
        """A checkpoint is triggered and completes."""
        return self.triggered(number, at).completed(number, at + 200, lasting=200, size=7)

    def reported(self, until: int = AT + 5 * MINUTE) -> list[Transition]:
        """Its transitions."""
        return self.transitions(until)

    def is_lost(self, until: int = AT + 5 * MINUTE) -> bool:
        """Whether its loss is one incident."""
        opened = self.opened(until)
        assert opened in ([], ["jobmanager_lost"])
        return bool(opened)

    def starts(self, what: str = "StandaloneSessionClusterEntrypoint", jobs: bool = True) -> "Cluster":
        """The JobManager starts, leads and runs the job."""
        self.line("process_version", 0, what=what, version="1.20.5")
        self.line("rpc_started", 1, address=JM).line("leader_granted", 2)
        return self.runs(5) if jobs else self


def cluster(*tms: str) -> Cluster:
    return Cluster("jobmanager_lost").starts().knows(*tms)


def test_taskmanagers_that_lose_both_masters_are_one_loss() -> None:
    transitions = cluster("tm-1", "tm-2").killed("tm-1", "tm-2").reported()
    assert [t.transition for t in transitions] == ["opened"]
    finding = transitions[0].findings[0]
    assert (finding.subject, finding.since) == (JM, START + AT)
    assert "tm-1, tm-2" in finding.summary


def test_a_single_taskmanager_is_enough_where_its_connection_is_refused() -> None:
    assert cluster("tm-1").killed("tm-1").is_lost()


def test_a_frozen_taskmanager_blames_a_jobmanager_that_goes_on() -> None:
    history = cluster("tm-1", "tm-2").silent(AT, "tm-1")
    for n in range(1, 20):
        history.completes(n, AT - MINUTE + n * 5 * SECOND)
    assert not history.is_lost()


def test_metrics_of_the_jobmanager_that_go_on_are_a_sign_of_life() -> None:
    history = cluster("tm-1").silent(AT, "tm-1")
    assert history.is_lost()
    for n in range(20):
        history.scrape(Sample("jm_heap_used", {}, 1.0), at=AT - MINUTE + n * 10 * SECOND, host="jm")
    assert not history.is_lost()


def test_one_taskmanager_alone_is_believed_only_when_the_jobmanager_stays_silent() -> None:
    def one() -> Cluster:
        return cluster("tm-1", "tm-2").silent(AT, "tm-1")

    assert not one().completes(1, AT + 30 * SECOND).is_lost()
    assert not one().is_lost(until=AT + 50 * SECOND)
    assert one().is_lost()


def test_one_whose_jobmanager_was_never_seen_may_be_the_one_that_froze() -> None:
    """The JobManager's log may be shipped half a minute later."""

    def only() -> Cluster:
        return Cluster("jobmanager_lost").knows("tm-1")

    assert not only().silent(AT, "tm-1").registers(AT + SECOND, "jm", lag=30 * SECOND).is_lost()
    assert not only().silent(AT, "tm-1").is_lost(until=AT + 50 * SECOND)
    assert only().silent(AT, "tm-1").is_lost()
    assert only().killed("tm-1").is_lost(until=AT + 15 * SECOND)


def test_the_connections_a_taskmanager_closes_by_itself_prove_nothing() -> None:
    closing = cluster("tm-1").line("jm_closed", AT, source="tm-1", job=JOB).line("jm_closed", AT + 1, source="tm-1")
    assert not closing.gated(AT + 5, "tm-1", "tm-2:4000").is_lost()


def test_an_address_that_is_not_the_jobmanagers_is_no_sign() -> None:
    def leader_lost() -> Cluster:
        return cluster("tm-1").line("jm_leader_lost", AT, source="tm-1", job=JOB)

    assert not leader_lost().gated(AT - 50, "tm-1", "tm-2:4000").is_lost()
    assert leader_lost().gated(AT - 50, "tm-1", JM).is_lost()


@pytest.mark.parametrize("late", [-5 * SECOND, 1 * SECOND])
def test_an_orderly_stop_is_no_loss_even_when_its_line_comes_late(late: int) -> None:
    history = cluster("tm-1", "tm-2").signalled(AT + 8 * SECOND + late).killed("tm-1", "tm-2")
    assert not history.is_lost()


def test_a_taskmanager_that_is_stopped_is_no_witness_and_no_end_of_the_jobmanager() -> None:
    stopped = cluster("tm-1").gated(AT, "tm-1").line("jm_timed_out", AT + 8 * SECOND, source="tm-1", peer="JobManager")
    assert not stopped.signalled(AT, "tm-1").gated(AT + 1, "tm-1").is_lost()
    assert cluster("tm-1", "tm-2").signalled(AT, "tm-1").killed("tm-2").is_lost()


def test_both_lines_of_a_fatal_error_are_one_loss_with_its_reason() -> None:
    history = cluster("tm-1").completes(43, AT - MINUTE)
    thrown = ("x.y.KubernetesClientException", "too old resource version: 1 (2)", "")
    for after in (0, 1):
        history.at(AT + after).line("jm_fatal").stack(thrown)
    transitions = history.reported(AT + 20 * SECOND)
    assert [t.transition for t in transitions] == ["opened"]
    assert "KubernetesClientException: too old resource version: 1 (2)" in transitions[0].summary
    assert "last completed checkpoint 43 (60 s before)" in transitions[0].summary


def test_a_fatal_error_while_it_is_stopped_is_part_of_the_stop() -> None:
    assert not cluster("tm-1").signalled(AT - SECOND).line("jm_fatal", AT).is_lost()


def test_the_end_that_follows_a_fatal_error_is_not_orderly() -> None:
    assert cluster("tm-1").line("jm_fatal", AT).line("cluster_ending", AT + 5, what="X", status="UNKNOWN").is_lost()


def test_a_standby_that_takes_over_at_once_ends_a_loss_that_is_reported_all_the_same() -> None:
    transitions = cluster("tm-1", "tm-2").killed("tm-1", "tm-2").takes_over(AT + 9 * SECOND).reported()
    assert [t.transition for t in transitions] == ["opened", "resolved"]
    assert transitions[1].reason == "the job runs again"


def test_a_new_jobmanager_that_brings_no_job_back_does_not_end_the_loss() -> None:
    history = cluster("tm-1", "tm-2").killed("tm-1", "tm-2").takes_over(AT + 20 * SECOND, recovers=False)
    transitions = history.registers(AT + 30 * SECOND, "jm-2").reported()
    assert [t.transition for t in transitions] == ["opened", "updated"]
    assert transitions[1].summary.endswith("a JobManager leads again, but it did not recover job orders")


def test_in_a_cluster_without_jobs_a_new_jobmanager_ends_the_loss() -> None:
    history = Cluster("jobmanager_lost").starts(jobs=False).knows("tm-1", "tm-2")
    history.silent(AT, "tm-1").silent(AT, "tm-2").takes_over(AT + 20 * SECOND, recovers=False)
    transitions = history.reported()
    assert [t.transition for t in transitions] == ["opened", "resolved"]
    assert transitions[1].reason == "a JobManager was granted leadership"


def test_a_jobmanager_that_registers_its_taskmanagers_again_never_went() -> None:
    assert not cluster("tm-1", "tm-2").silent(AT, "tm-1").registers(AT + 500, "jm").is_lost()


def test_what_comes_again_after_the_end_is_no_second_loss() -> None:
    history = cluster("tm-1", "tm-2").killed("tm-1", "tm-2").takes_over(AT + 12 * SECOND)
    history.line("jm_timed_out", AT + 8 * SECOND, source="tm-1", lag=5 * MINUTE, peer="JobManager").killed("tm-2")
    assert [t.transition for t in history.reported()] == ["opened", "resolved"]


def test_a_jobmanager_that_is_lost_again_elsewhere_is_the_same_incident() -> None:
    history = cluster("tm-1").killed("tm-1").takes_over(AT + 20 * SECOND, recovers=False)
    history.knows("tm-1", at=AT + 21 * SECOND, address=OTHER_JM)
    transitions = (
        history.gated(AT + 2 * MINUTE, "tm-1", OTHER_JM).silent(AT + 2 * MINUTE + 8 * SECOND, "tm-1").reported()
    )
    assert len({t.incident for t in transitions}) == 1
    assert {f.subject for f in transitions[-1].findings} == {JM, OTHER_JM}


def test_the_exit_of_the_taskmanagers_is_forecast_from_the_timeout_in_force() -> None:
    history = cluster("tm-1").killed("tm-1")
    (by_default,) = history.reported()
    assert by_default.forecast is not None
    assert by_default.forecast.at == START + AT + 308 * SECOND
    (transition,) = history.line(
        "configured", 3, source="tm-1", key="taskmanager.registration.timeout", value="60 s"
    ).reported()
    assert transition.forecast is not None
    assert transition.forecast.at == START + AT + 68 * SECOND


def test_after_the_exit_yarn_is_what_comes_next() -> None:
    history = Cluster("jobmanager_lost").starts("YarnJobClusterEntrypoint").knows("tm-1").killed("tm-1")
    history.line("registration_timed_out", AT + 308 * SECOND, source="tm-1", duration="300000 ms")
    forecast = history.reported(AT + 320 * SECOND)[-1].forecast
    assert forecast is not None
    assert forecast.what.startswith("YARN replaces")
    assert forecast.at == START + AT + 600 * SECOND


def test_a_taskmanager_that_could_not_register_all_the_time_proves_it_alone() -> None:
    history = Cluster("jobmanager_lost").line("registration_timed_out", AT, source="tm-1", duration="PT5M")
    transitions = history.reported()
    assert [t.transition for t in transitions] == ["opened"]
    assert transitions[0].findings[0].since == START + AT - 5 * MINUTE


@pytest.mark.parametrize("tm", ["tm-1", "tm-2"])
def test_a_rolling_upgrade_with_a_standby_is_no_loss(tm: str) -> None:
    history = cluster("tm-1", "tm-2").signalled(AT).line("leader_granted", AT + 300, source="jm-2")
    history.gated(AT + 500, tm).line("jm_leader_lost", AT + 600, source=tm, job=JOB)
    assert not history.is_lost()


def test_a_rolling_upgrade_behind_one_service_address_is_no_loss() -> None:
    history = cluster("tm-1", "tm-2").signalled(AT).by("jm-b")
    history.line("process_version", AT + 15 * SECOND, what="KubernetesApplicationClusterEntrypoint", version="1")
    history.line("rpc_started", AT + 16 * SECOND, address=JM).line("leader_granted", AT + 17 * SECOND)
    assert not history.gated(AT + 100, "tm-1").silent(AT + 45 * SECOND, "tm-1").is_lost()


def test_a_stop_that_is_read_again_after_the_next_start_hides_nothing() -> None:
    history = cluster("tm-1")
    for lag in (100, 45 * SECOND):
        history.signalled(AT - MINUTE, lag=lag, offset=900)
    history.line("process_version", AT - 50 * SECOND, what="StandaloneSessionClusterEntrypoint", version="1")
    history.line("leader_granted", AT - 49 * SECOND).line("rpc_started", AT - 48 * SECOND, address=JM)
    assert history.knows("tm-1", at=AT - 40 * SECOND).killed("tm-1").is_lost()


@pytest.mark.parametrize("every", [15, 30, 60, 120])
def test_a_jobmanager_that_is_scraped_seldom_is_given_time_for_three_scrapes(every: int) -> None:
    """Between two scrapes, and without a checkpoint, a healthy JobManager gives no sign of life."""

    def scraped(until: int) -> Cluster:
        history = cluster("tm-1", "tm-2").silent(AT, "tm-1")
        for at in range(AT - 10 * MINUTE, until, every * SECOND):
            history.scrape(Sample("jm_heap_used", {}, 1.0), at=at - 50 * SECOND, host="jm")
        return history

    assert not scraped(AT + 20 * MINUTE).is_lost(until=AT + 20 * MINUTE)
    assert scraped(AT - 40 * SECOND).is_lost(until=AT + 20 * MINUTE)


HEAP: Thrown = ("java.lang.OutOfMemoryError", "Java heap space", "")


class Accused(Cluster):
    """A JobManager that continues to work while TaskManagers report it as lost."""

    def works(self, until: int = AT + 3 * MINUTE, lag: int = 100) -> "Accused":
        """A checkpoint every two minutes, and no scrapes."""
        for n, at in enumerate(range(AT - 4 * MINUTE, until, 2 * MINUTE), 1):
            self.triggered(n, at + MINUTE, lag=lag).completed(n, at + MINUTE + 100, lasting=100, lag=lag)
        return self

    def out_of_memory(self, at: int, *tms: str) -> "Accused":
        """Each of these TaskManagers has an error of its own."""
        for tm in tms:
            self.line("process_fatal", at, source=tm).by(tm).stack(HEAP, at=at)
        return self.by("jm")

    def gives_up(self, at: int, *tms: str, lag: int = 100) -> "Accused":
        """The JobManager reports TaskManagers as lost."""
        for tm in tms:
            self.line("tm_timed_out", at, lag=lag, tm=f"{tm}:6122-a")
        return self


def accused(*tms: str) -> Accused:
    history = Accused("jobmanager_lost").starts().knows(*tms)
    for tm in tms:
        history.line("tm_started", 5, source=tm, tm=f"{tm}:6122-a")
    return history


@pytest.mark.parametrize("after", [-2 * SECOND, 10 * SECOND, 45 * SECOND])
@pytest.mark.parametrize("refused", [True, False])
def test_a_taskmanager_that_dies_of_its_own_heap_blames_a_healthy_jobmanager(after: int, refused: bool) -> None:
    """Its last lines come up to a minute after its lost heartbeats, and the JobManager has nothing to write."""
    for tms in (["tm-1", "tm-2"], ["tm-1", "tm-2", "tm-3"]):
        history = accused(*tms).works().silent(AT, "tm-1")
        if refused:
            history.line("jm_unreachable", AT + 50, source="tm-1", peer="JobManager")
        assert not history.out_of_memory(AT + after, "tm-1").is_lost()


def test_several_that_are_out_of_memory_prove_nothing_either() -> None:
    history = accused("tm-1", "tm-2").works().silent(AT, "tm-1").silent(AT + SECOND, "tm-2")
    assert not history.out_of_memory(AT - SECOND, "tm-1", "tm-2").is_lost()


def test_what_was_reported_of_it_by_the_sick_is_withdrawn() -> None:
    history = accused("tm-1", "tm-2").silent(AT, "tm-1").silent(AT + SECOND, "tm-2")
    said = history.out_of_memory(AT + 10 * SECOND, "tm-1", "tm-2").reported()
    assert [t.transition for t in said] == ["opened", "resolved"]
    assert "out of memory themselves" in said[1].reason
    assert said[1].at - said[0].at <= 75 * SECOND


def test_a_healthy_witness_next_to_a_sick_one_is_believed() -> None:
    history = accused("tm-1", "tm-2").silent(AT, "tm-1").silent(AT + SECOND, "tm-2")
    assert history.out_of_memory(AT + 10 * SECOND, "tm-1").is_lost()
    assert accused("tm-1", "tm-2").silent(AT, "tm-1").out_of_memory(AT - 10 * MINUTE, "tm-1").is_lost()


@pytest.mark.parametrize("refused", [True, False])
def test_taskmanagers_that_are_cut_off_blame_a_jobmanager_that_continues(refused: bool) -> None:
    history = accused("tm-1", "tm-2", "tm-3").works().gives_up(AT - SECOND, "tm-1", "tm-2")
    for tm in ("tm-1", "tm-2"):
        if refused:
            history.gated(AT - 9 * SECOND, tm)
        history.silent(AT, tm)
    assert not history.is_lost()


def test_taskmanagers_whose_start_was_not_seen_are_known_by_their_hosts() -> None:
    history = Accused("jobmanager_lost").starts().knows("tm-1", "tm-2").works()
    for tm in ("tm-1", "tm-2"):
        history.line("tm_registered", 5, tm=f"{tm}:6122-a", host=tm)
    history.gives_up(AT - SECOND, "tm-1", "tm-2")
    for tm in ("tm-1", "tm-2"):
        history.gated(AT - 9 * SECOND, tm).silent(AT, tm)
    assert not history.is_lost()


def test_taskmanagers_that_it_gave_up_are_believed_when_it_stays_silent() -> None:
    history = accused("tm-1", "tm-2").gives_up(AT - 20 * SECOND, "tm-1", "tm-2")
    for tm in ("tm-1", "tm-2"):
        history.gated(AT, tm).silent(AT + 8 * SECOND, tm)
    assert not history.is_lost(until=AT + 50 * SECOND)
    assert history.is_lost()


def test_a_jobmanagers_log_that_is_read_later_withdraws_the_loss() -> None:
    def told() -> Accused:
        return accused("tm-1", "tm-2").silent(AT, "tm-1").silent(AT + SECOND, "tm-2")

    said = told().line("tasks_restarting", AT - 20 * SECOND, lag=90 * SECOND, failed="a" * 32).reported()
    assert [t.transition for t in said] == ["opened", "resolved"]
    assert said[1].reason == "its own log continues"
    before = told().line("tasks_restarting", AT - 60 * SECOND, lag=2 * MINUTE, failed="a" * 32).reported()
    after = told().line("tasks_restarting", AT + 60 * SECOND, failed="a" * 32).reported()
    assert [t.transition for t in before] == [t.transition for t in after] == ["opened"]


def test_one_whose_connection_is_refused_is_not_believed_while_its_peers_keep_the_contact() -> None:
    assert not accused("tm-1", "tm-2").works().killed("tm-1").is_lost()
    assert accused("tm-1", "tm-2").killed("tm-1").is_lost()
    assert accused("tm-1", "tm-2").killed("tm-1", "tm-2").is_lost(until=AT + 15 * SECOND)


@pytest.mark.parametrize("meaning", ["tasks_restarting", "slots_wanted", "task_deploying", "tm_closed"])
def test_any_line_of_its_own_log_outweighs_them(meaning: str) -> None:
    fields = {"task": "map", "subtask": "1", "host": "h", "tm": "tm-9:1-a", "reason": "x", "failed": "a" * 32}
    history = accused("tm-1", "tm-2").silent(AT, "tm-1").silent(AT + SECOND, "tm-2")
    assert not history.line(meaning, AT - 20 * SECOND, **fields).is_lost()


@pytest.mark.parametrize("every", [5, 15, 30, 60])
@pytest.mark.parametrize("tms", [1, 2])
def test_a_jobmanager_that_is_scraped_is_asked_before_heartbeats_are_believed(every: int, tms: int) -> None:
    def told(until: int) -> Accused:
        history = accused("tm-1", "tm-2")
        for tm in ("tm-1", "tm-2")[:tms]:
            history.silent(AT, tm)
        for at in range(AT - 5 * MINUTE, until, every * SECOND):
            history.scrape(Sample("jm_heap_used", {}, 1.0), at=at - SECOND, host="jm")
        return history

    assert not told(AT + 5 * MINUTE).is_lost()
    assert told(AT - 45 * SECOND).is_lost()
