"""When a JobManager is lost, when it only seems so, and what is forecast."""

import pytest

from detectors.events.event import Event
from detectors.flink.timeouts import flink_duration
from detectors.incident import Transition
from tests.unit.detectors.streams import START, in_order, log, metric, run

JOB = "a" * 32
JM, OTHER = "jm-1:6123", "jm-2:6123"
SECOND, MINUTE = 1_000, 60_000
AT = 10 * MINUTE


def of_jobmanagers(*events: Event, until: int = AT + 5 * MINUTE) -> list[Transition]:
    said = run(in_order(events), until=START + until)
    return [t for t in said if any(f.kind == "jobmanager_lost" for f in t.findings)]


def opened(*events: Event, until: int = AT + 5 * MINUTE) -> list[str]:
    return [t.cause for t in of_jobmanagers(*events, until=until) if t.transition == "opened"]


def cluster(*tms: str, address: str = JM, jm: str = "jm") -> list[Event]:
    """A JobManager that leads, and TaskManagers that have registered with it."""
    started = [
        log("process_version", 0, source=jm, what="StandaloneSessionClusterEntrypoint", version="1.20.5"),
        log("rpc_started", 1, source=jm, address=address),
        log("leader_granted", 2, source=jm),
        log("job_state", 5, source=jm, job=JOB, name="orders", before="CREATED", state="RUNNING"),
    ]
    return [*started, *(log("jm_address", 10, source=tm, address=address) for tm in tms)]


def takes_over(at: int) -> tuple[Event, Event]:
    """Another JobManager leads, and recovers the job."""
    recovered = log("job_state", at + 1_000, source="jm-2", job=JOB, name="orders", before="CREATED", state="RUNNING")
    return log("leader_granted", at, source="jm-2"), recovered


def gated(at: int, tm: str, address: str = JM) -> Event:
    return log("rpc_gated", at, source=tm, address=address)


def silent(at: int, tm: str) -> list[Event]:
    """Both heartbeats time out on a TaskManager."""
    return [log("jm_timed_out", at + i, source=tm, peer=p) for i, p in enumerate(("JobManager", "ResourceManager"))]


def checkpoint(n: int, at: int, source: str = "jm") -> list[Event]:
    return [
        log("checkpoint_triggered", at, source=source, checkpoint=str(n), job=JOB, type="CHECKPOINT", epoch="0"),
        log("checkpoint_completed", at + 200, source=source, checkpoint=str(n), job=JOB, bytes="7", duration="200"),
    ]


def killed(*tms: str) -> list[Event]:
    """The JobManager is killed at AT: connections are refused, heartbeats time out 8 s later."""
    return [e for tm in tms for e in (gated(AT, tm), *silent(AT + 8 * SECOND, tm))]


def test_taskmanagers_that_lose_both_masters_are_one_loss() -> None:
    said = of_jobmanagers(*cluster("tm-1", "tm-2"), *killed("tm-1", "tm-2"))
    assert [t.transition for t in said] == ["opened"]
    finding = said[0].findings[0]
    assert (finding.subject, finding.since) == (JM, START + AT)
    assert "tm-1, tm-2" in finding.summary


def test_a_single_taskmanager_is_enough_where_its_connection_is_refused() -> None:
    assert opened(*cluster("tm-1"), *killed("tm-1")) == ["jobmanager_lost"]


def test_a_frozen_taskmanager_blames_a_jobmanager_that_goes_on() -> None:
    going_on = [e for n in range(1, 20) for e in checkpoint(n, AT - MINUTE + n * 5 * SECOND)]
    assert opened(*cluster("tm-1", "tm-2"), *silent(AT, "tm-1"), *going_on) == []


def test_metrics_of_the_jobmanager_that_go_on_are_a_sign_of_life() -> None:
    scrapes = [metric("jm_heap_used", AT - MINUTE + n * 10 * SECOND, 1.0) for n in range(20)]
    for scrape in scrapes:
        scrape.host = "jm"
    assert opened(*cluster("tm-1"), *silent(AT, "tm-1"), *scrapes) == []
    assert opened(*cluster("tm-1"), *silent(AT, "tm-1")) == ["jobmanager_lost"]


def test_one_taskmanager_alone_is_believed_only_when_the_jobmanager_stays_silent() -> None:
    alone = [*cluster("tm-1", "tm-2"), *silent(AT, "tm-1")]
    assert opened(*alone, *checkpoint(1, AT + 30 * SECOND)) == []
    assert opened(*alone, until=AT + 50 * SECOND) == []
    assert opened(*alone) == ["jobmanager_lost"]


def test_one_whose_jobmanager_was_never_heard_may_be_the_one_that_froze() -> None:
    """The JobManager's log may be shipped half a minute later."""
    only = [log("jm_address", 10, source="tm-1", address=JM), *silent(AT, "tm-1")]
    again = log("tm_registered", AT + SECOND, source="jm", tm="tm-1:1-a", lag=30 * SECOND)
    assert opened(*only, again) == []
    assert opened(*only, until=AT + 50 * SECOND) == []
    assert opened(*only) == ["jobmanager_lost"]
    assert opened(only[0], *killed("tm-1"), until=AT + 15 * SECOND) == ["jobmanager_lost"]


def test_the_connections_a_taskmanager_closes_by_itself_prove_nothing() -> None:
    closing = [log("jm_closed", AT, source="tm-1", job=JOB), log("jm_closed", AT + 1, source="tm-1")]
    assert opened(*cluster("tm-1"), *closing, gated(AT + 5, "tm-1", "tm-2:4000")) == []


def test_an_address_that_is_not_the_jobmanagers_is_no_sign() -> None:
    lost_leader = log("jm_leader_lost", AT, source="tm-1", job=JOB)
    assert opened(*cluster("tm-1"), gated(AT - 50, "tm-1", "tm-2:4000"), lost_leader) == []
    assert opened(*cluster("tm-1"), gated(AT - 50, "tm-1", JM), lost_leader) == ["jobmanager_lost"]


@pytest.mark.parametrize("late", [-5 * SECOND, 1 * SECOND])
def test_an_orderly_stop_is_no_loss_even_when_its_line_comes_late(late: int) -> None:
    stop = log("process_signalled", AT + 8 * SECOND + late, source="jm", signal="15")
    assert opened(*cluster("tm-1", "tm-2"), stop, *killed("tm-1", "tm-2")) == []


def test_a_taskmanager_that_is_stopped_is_no_witness_and_no_end_of_the_jobmanager() -> None:
    stop = log("process_signalled", AT, source="tm-1", signal="15")
    assert opened(*cluster("tm-1"), *killed("tm-1")[:2], stop, gated(AT + 1, "tm-1")) == []
    assert opened(*cluster("tm-1", "tm-2"), stop, *killed("tm-2")) == ["jobmanager_lost"]


def test_both_lines_of_a_fatal_error_are_one_loss_with_its_reason() -> None:
    fatal = [log("jm_fatal", AT, 1), log("jm_fatal", AT + 1, 3)]
    thrown = {"class": "x.y.KubernetesClientException", "message": "too old resource version: 1 (2)"}
    stacks = [log("thrown", AT, 2, **thrown), log("thrown", AT + 1, 4, **thrown)]
    said = of_jobmanagers(*cluster("tm-1"), *checkpoint(43, AT - MINUTE), *fatal, *stacks, until=AT + 20 * SECOND)
    assert [t.transition for t in said] == ["opened"]
    assert "KubernetesClientException: too old resource version: 1 (2)" in said[0].summary
    assert "last completed checkpoint 43, 60 s before" in said[0].summary


def test_a_fatal_error_while_it_is_stopped_is_part_of_the_stop() -> None:
    stop = log("process_signalled", AT - SECOND, source="jm", signal="15")
    assert opened(*cluster("tm-1"), stop, log("jm_fatal", AT)) == []


def test_the_end_that_follows_a_fatal_error_is_not_orderly() -> None:
    ending = log("cluster_ending", AT + 5, what="X", status="UNKNOWN")
    assert opened(*cluster("tm-1"), log("jm_fatal", AT), ending) == ["jobmanager_lost"]


def test_a_standby_that_takes_over_at_once_ends_a_loss_that_is_said_all_the_same() -> None:
    standby = takes_over(AT + 9 * SECOND)
    said = of_jobmanagers(*cluster("tm-1", "tm-2"), *killed("tm-1", "tm-2"), *standby)
    assert [t.transition for t in said] == ["opened", "resolved"]
    assert said[1].reason == "the job runs again"


def test_a_new_jobmanager_that_brings_no_job_back_does_not_end_the_loss() -> None:
    anew, _ = takes_over(AT + 20 * SECOND)
    register = log("tm_registered", AT + 30 * SECOND, source="jm-2", tm="tm-1:1-a", host="tm-1", address="tm-1:1")
    said = of_jobmanagers(*cluster("tm-1", "tm-2"), *killed("tm-1", "tm-2"), anew, register)
    assert [t.transition for t in said] == ["opened", "updated"]
    assert said[1].summary.endswith("a JobManager is there again, but job orders did not come back with it")


def test_in_a_cluster_without_jobs_a_new_jobmanager_ends_the_loss() -> None:
    idle = [e for e in cluster("tm-1", "tm-2") if getattr(e, "event_type", "") != "job_state"]
    lost = [e for tm in ("tm-1", "tm-2") for e in silent(AT, tm)]
    said = of_jobmanagers(*idle, *lost, takes_over(AT + 20 * SECOND)[0])
    assert [t.transition for t in said] == ["opened", "resolved"]
    assert said[1].reason == "a JobManager leads again"


def test_a_jobmanager_that_registers_its_taskmanagers_again_never_went() -> None:
    again = log("tm_registered", AT + 500, source="jm", tm="tm-1:1-a", host="tm-1", address="tm-1:1")
    assert opened(*cluster("tm-1", "tm-2"), *silent(AT, "tm-1"), again) == []


def test_what_comes_again_after_the_end_is_no_second_loss() -> None:
    once = [*cluster("tm-1", "tm-2"), *killed("tm-1", "tm-2"), *takes_over(AT + 12 * SECOND)]
    again = [log("jm_timed_out", AT + 8 * SECOND, 99, "tm-1", 5 * MINUTE, peer="JobManager"), *killed("tm-2")]
    assert [t.transition for t in of_jobmanagers(*once, *again)] == ["opened", "resolved"]


def test_a_jobmanager_that_is_lost_again_elsewhere_is_the_same_incident() -> None:
    first = [*cluster("tm-1"), *killed("tm-1"), log("leader_granted", AT + 20 * SECOND, source="jm-2")]
    second = [
        log("jm_address", AT + 21 * SECOND, source="tm-1", address=OTHER),
        gated(AT + 2 * MINUTE, "tm-1", OTHER),
        *silent(AT + 2 * MINUTE + 8 * SECOND, "tm-1"),
    ]
    said = of_jobmanagers(*first, *second)
    assert len({t.incident for t in said}) == 1
    assert {f.subject for f in said[-1].findings} == {JM, OTHER}


def test_the_exit_of_the_taskmanagers_is_forecast_from_the_timeout_in_force() -> None:
    option = {"key": "taskmanager.registration.timeout", "value": "60 s"}
    said = of_jobmanagers(*cluster("tm-1"), log("configured", 3, source="tm-1", **option), *killed("tm-1"))
    assert said[0].forecast is not None
    assert said[0].forecast.at == START + AT + 68 * SECOND
    by_default = of_jobmanagers(*cluster("tm-1"), *killed("tm-1"))
    assert by_default[0].forecast is not None
    assert by_default[0].forecast.at == START + AT + 308 * SECOND


def test_after_the_exit_yarn_is_what_comes_next() -> None:
    start = log("process_version", 0, source="jm", what="YarnJobClusterEntrypoint", version="1.13.2")
    exit_ = log("registration_timed_out", AT + 308 * SECOND, source="tm-1", duration="300000 ms")
    said = of_jobmanagers(start, *cluster("tm-1")[1:], *killed("tm-1"), exit_, until=AT + 320 * SECOND)
    assert said[-1].forecast is not None
    assert said[-1].forecast.what.startswith("YARN replaces")
    assert said[-1].forecast.at == START + AT + 600 * SECOND


def test_a_taskmanager_that_could_not_register_all_the_time_proves_it_alone() -> None:
    exit_ = log("registration_timed_out", AT, source="tm-1", duration="PT5M")
    said = of_jobmanagers(exit_)
    assert [t.transition for t in said] == ["opened"]
    assert said[0].findings[0].since == START + AT - 5 * MINUTE


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("60 s", 60_000),
        ("5 min", 300_000),
        ("10000", 10_000),
        ("300000 ms", 300_000),
        ("8s", 8_000),
        ("PT20S", 20_000),
        ("PT1M30S", 90_000),
        ("PT1H", 3_600_000),
        ("1 day", 86_400_000),
        ("2 hours", 7_200_000),
        ("Inf", None),
        ("", None),
        ("PT", None),
    ],
)
def test_durations_are_read_as_flink_writes_them(text: str, ms: int | None) -> None:
    assert flink_duration(text) == ms


def test_a_rolling_upgrade_with_a_standby_is_no_loss() -> None:
    stop = log("process_signalled", AT, source="jm", signal="15")
    standby = log("leader_granted", AT + 300, source="jm-2")
    for tm in ("tm-1", "tm-2"):
        complaints = [gated(AT + 500, tm), log("jm_leader_lost", AT + 600, source=tm, job=JOB)]
        assert opened(*cluster("tm-1", "tm-2"), stop, standby, *complaints) == []


def test_a_rolling_upgrade_behind_one_service_address_is_no_loss() -> None:
    stop = log("process_signalled", AT, source="jm", signal="15")
    fresh = [
        log(
            "process_version",
            AT + 15 * SECOND,
            source="jm-b",
            what="KubernetesApplicationClusterEntrypoint",
            version="1",
        ),
        log("rpc_started", AT + 16 * SECOND, source="jm-b", address=JM),
        log("leader_granted", AT + 17 * SECOND, source="jm-b"),
    ]
    complaints = [gated(AT + 100, "tm-1"), *silent(AT + 45 * SECOND, "tm-1")]
    assert opened(*cluster("tm-1", "tm-2"), stop, *fresh, *complaints) == []


def test_a_stop_that_is_read_again_after_the_next_start_hides_nothing() -> None:
    stop = [log("process_signalled", AT - MINUTE, 90, "jm", lag, signal="15") for lag in (100, 45 * SECOND)]
    fresh = [
        log("process_version", AT - 50 * SECOND, source="jm", what="StandaloneSessionClusterEntrypoint", version="1"),
        log("leader_granted", AT - 49 * SECOND, source="jm"),
        log("rpc_started", AT - 48 * SECOND, source="jm", address=JM),
        log("jm_address", AT - 40 * SECOND, source="tm-1", address=JM),
    ]
    assert opened(*cluster("tm-1"), *stop, *fresh, *killed("tm-1")) == ["jobmanager_lost"]
