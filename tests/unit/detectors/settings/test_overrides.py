"""Overrides: other thresholds for some clusters or jobs, and for those alone."""

import inspect
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from detectors import DETECTORS
from detectors.detector import Detector
from detectors.engine import fold
from detectors.engine.engine import Engine, JobSettings
from detectors.engine.engines import Configuration
from detectors.engine.state import ClusterState
from detectors.events.event import Event
from detectors.flink.topology import Topology
from detectors.incidents.known_issues import IssueCatalogue
from detectors.settings.live import LiveSettings
from detectors.settings.overrides import Override, resolve
from tests.recorded import events
from tests.unit.detectors.changes import TWIN, Played, findings, live, serialized, twin
from tests.unit.detectors.streams import START, encoded, in_order, log, made_up, metric, run

PER_JOB = [d for d in DETECTORS if d.per_job]
EVERY_JOB = "~(?s).*"
FOUND_IN = {
    "backpressure": "backpressure-slow-sink",
    "checkpoint_duration_creep": "checkpoint-creep-linear",
    "checkpoint_failing": "checkpoint-declined",
    "checkpoint_overdue": "checkpoint-hung-then-done",
    "job_failed": "job-failed",
    "lag_growing": "lag-growing",
    "late_barrier_acks": "late-barrier-acks-1.9.3",
    "late_records_dropped": "late-records-dropped",
    "network_buffers_exhausted": "network-buffers-exhausted",
    "restart_loop": "restart-loop",
    "restore_failed": "savepoint-missing-2.3.0",
    "savepoint_failed": "savepoint-failed",
    "sink_data_lost": "sink-data-lost",
    "task_stuck": "task-stuck-without-checkpoints",
    "transaction_timeout": "transaction-timeout",
    "watermark_stalled": "watermark-stalled-idle-partition",
    "zero_input_leak": "zero-input-leak",
}
HIGH: dict[str, dict[str, Any]] = {
    "backpressure": {"busy_ms_per_s": 1000, "input_buffer_usage": 1, "min_duration": "300d"},
    "checkpoint_duration_creep": {"growth": 1000.0},
    "checkpoint_failing": {"in_a_row": 16, "confirmation_delay": "300d"},
    "checkpoint_overdue": {"min_age": "300d", "learning_limit": "300d"},
    "lag_growing": {"min_duration": "300d"},
    "late_barrier_acks": {"min_acks": 100, "repeats": 100},
    "late_records_dropped": {"min_share": 1.0},
    "restart_loop": {"count": 12, "period_tolerance": 1.0},
    "savepoint_failed": {"confirmation_delay": "300d"},
    "task_stuck": {"min_duration": "300d"},
    "watermark_stalled": {"min_duration": "300d"},
    "zero_input_leak": {"min_checkpoints": 100_000, "min_rise": 0.99},
}
"""Thresholds that nothing recorded reaches."""
OTHER: dict[str, dict[str, Any]] = {
    "backpressure": {
        "busy_ms_per_s": 40,
        "min_duration": "1s",
        "min_history": 2,
        "min_slow_checkpoints": 1,
        "slow_checkpoint_factor": 2,
        "slow_checkpoint_min_duration": "1ms",
    },
    "checkpoint_duration_creep": {"min_checkpoints": 12, "growth": 0.1, "min_increase": "1ms", "timeout": "2m"},
    "checkpoint_failing": {"in_a_row": 2, "confirmation_delay": "7s", "restart_for": "1ms"},
    "checkpoint_overdue": {"min_age": "3s", "learning_limit": "11s", "min_history": 2, "deaf_for": "1m"},
    "job_failed": {"stack_wait": "9s", "planned_wait": "5s", "running_for": "20s"},
    "lag_growing": {"min_growth": "1s", "min_duration": "1s", "min_samples": 3, "min_records": 1},
    "late_barrier_acks": {"min_acks": 1, "remember": "1h", "healthy_checkpoints": 1, "settle": "1ms"},
    "late_records_dropped": {"min_share": 0.001, "window": "1m", "catch_up": "1ms"},
    "network_buffers_exhausted": {"recovered_after": "1s", "running_for": "10s"},
    "restart_loop": {
        "count": 2,
        "window": "1h",
        "running_for": "10s",
        "unnamed_restart_wait": "2s",
        "quiet_periods": 1.0,
    },
    "restore_failed": {"adjacent": "10m"},
    "savepoint_failed": {"confirmation_delay": "7s", "triggered_within": "1s", "forget_after": "20s"},
    "sink_data_lost": {"recovered_after": "1s", "running_for": "10s", "min_duration": "1s", "min_share": 0.0001},
    "task_stuck": {"min_duration": "1s", "pause_factor": 1.0, "critical_after": "10s", "sample_max_age": "10m"},
    "transaction_timeout": {"recovered_after": "1s", "running_for": "10s"},
    "watermark_stalled": {"min_duration": "1s", "pause_factor": 1.0, "catch_up": "1ms", "sample_max_age": "10m"},
    "zero_input_leak": {"min_checkpoints": 2, "min_flat": "1s", "critical_within": "300d"},
}

laws = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
each_kind = pytest.mark.parametrize("kind", [d.kind for d in PER_JOB])


def by_job(job: str, kind: str, **block: Any) -> dict[str, Any]:
    return {"job": job, "detectors": {kind: block}}


def jobs_found(kind: str, stream: list[Event], **sections: Any) -> set[str]:
    """IDs of the jobs with findings of a kind. Where several jobs run, a line may be about a process only."""
    output = run(stream, (), stream[-1].timestamp + 3_600_000, live(**sections))
    return {f.subject for f in findings(output, kind) if f.subject == f.entity.get("job_id")}


@each_kind
def test_an_override_by_job_changes_that_job_alone(kind: str) -> None:
    own = in_order(events(FOUND_IN[kind]))
    both = in_order([*own, *map(twin, own)])
    (job,) = jobs_found(kind, own)
    assert jobs_found(kind, both) == {job, job[::-1]}
    for block in ({"enabled": False}, HIGH.get(kind, {"enabled": False})):
        assert jobs_found(kind, both, overrides=[by_job(TWIN, kind, **block)]) == {job}
        others = by_job("~.*[^n]", kind, **block)
        assert jobs_found(kind, both, overrides=[others]) == {job[::-1]}


@each_kind
@laws
@given(data=st.data())
def test_settings_of_every_job_are_as_those_for_all(kind: str, data: st.DataObject) -> None:
    """Nothing that is decided for a job is decided by the general settings."""
    (detector,) = (d for d in PER_JOB if d.kind == kind)
    stream = data.draw(made_up(detector.event_types))
    end = stream[-1].timestamp + 2_000_000
    for_all = run(stream, (), end, live({kind: OTHER[kind]}))
    for_each = run(stream, (), end, live(overrides=[by_job(EVERY_JOB, kind, **OTHER[kind])]))
    assert serialized(for_each) == serialized(for_all)


class _Untouchable:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is read from the general settings")


@each_kind
@pytest.mark.parametrize("scenario", [*FOUND_IN.values()])
def test_a_detector_that_decides_for_jobs_never_looks_at_the_general_settings(
    kind: str, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    general = LiveSettings().detectors
    engine = Engine(general, by_job=JobSettings(lambda _: general, {kind: True}))
    for detector in engine.detectors(Topology()).all:
        if detector.kind == kind:
            detector.config = _Untouchable()
            monkeypatch.setattr(engine, "for_jobs", _swapped(detector.config, engine))
    stream = in_order(events(scenario))
    state = ClusterState()
    for start in range(0, len(stream), 200):
        batch = stream[start : start + 200]
        fold.step(engine, "c", state, batch, max(e.timestamp for e in batch))
        engine.next_step(state)


def _swapped(config: Any, engine: Engine) -> Any:
    original = engine.for_jobs

    def made(detector: Detector, topology: Topology) -> Detector:
        found = original(detector, topology)
        found.config = config
        return found

    return made


@pytest.mark.parametrize("detector", PER_JOB, ids=lambda d: d.kind)
def test_the_source_of_a_detector_that_decides_for_jobs_does_not_name_the_general_settings(
    detector: type[Detector],
) -> None:
    """What no stream of the tests reaches."""
    assert "self.config." not in inspect.getsource(inspect.getmodule(detector) or detector)


def test_the_first_override_that_names_a_setting_wins_and_each_setting_is_looked_for_alone() -> None:
    overrides = [
        Override.model_validate({"cluster": "prod-*", "detectors": {"restart_loop": {"count": 5}}}),
        Override.model_validate({"job": "orders-*", "detectors": {"restart_loop": {"count": 7, "window": "1h"}}}),
        Override.model_validate({"detectors": {"restart_loop": {"window": "2h", "running_for": "3h"}}}),
    ]
    found = resolve(LiveSettings().detectors.model_dump(mode="json"), overrides, [2, 0, 1])["restart_loop"]
    assert found["count"] == (5, 0)
    assert found["window"] == ("1h", 1)
    assert found["running_for"] == ("3h", 2)
    assert found["unnamed_restart_wait"] == ("30s", None)
    configuration = Configuration(LiveSettings(overrides=tuple(overrides)), "h", (), IssueCatalogue())
    counts = {
        (cluster, job): configuration.engine(cluster).by_job.settings(job).restart_loop.count
        for cluster in ("prod-1", "test")
        for job in ("orders-eu", "payments")
    }
    assert counts == {
        ("prod-1", "orders-eu"): 5,
        ("prod-1", "payments"): 5,
        ("test", "orders-eu"): 7,
        ("test", "payments"): 3,
    }


def test_clusters_to_which_the_same_overrides_apply_share_an_engine() -> None:
    overrides = (Override.model_validate({"cluster": "prod-*", "detectors": {"telemetry_lost": {"gap_factor": 5}}}),)
    configuration = Configuration(LiveSettings(overrides=overrides), "h", (), IssueCatalogue())
    assert configuration.engine("prod-1") is configuration.engine("prod-2") is not configuration.engine("test")


def test_a_job_is_matched_by_the_name_it_has_now_and_judged_again_when_it_gets_another() -> None:
    """The limit of 300 s while nobody knows the name is one of 10 s for this job: it is overdue at once."""
    played = Played(live(overrides=[by_job("orders", "checkpoint_overdue", learning_limit="10s")]))
    job = {"job": "a" * 32}
    assert played.take(log("checkpoint_triggered", 0, 1, checkpoint="1", epoch=str(START), **job), until=20_000) == []
    output = played.take(log("job_initializing", 20_500, 2, name="orders", **job), until=21_000)
    assert [(t.cause, t.at - START) for t in output] == [("checkpoint_overdue", 21_000)]


def test_a_name_that_comes_within_a_step_moves_a_deadline_that_was_known() -> None:
    played = Played(live(overrides=[by_job("orders", "checkpoint_overdue", learning_limit="10s")]))
    job = {"job": "a" * 32}
    triggered = log("checkpoint_triggered", 0, 1, checkpoint="1", epoch=str(START), **job)
    output = played.take(triggered, log("job_initializing", 20_500, 2, name="orders", **job), until=21_000)
    assert [(t.cause, t.at - START) for t in output] == [("checkpoint_overdue", 21_000)]


def test_a_name_that_a_metric_gives_counts_at_once() -> None:
    played = Played(live(overrides=[by_job("orders", "checkpoint_overdue", learning_limit="10s")]))
    job = "a" * 32
    played.take(log("checkpoint_triggered", 0, 1, checkpoint="1", epoch=str(START), job=job), until=20_000)
    output = played.take(metric("completed_checkpoints", 20_500, 0.0, 2, job_id=job, job_name="orders"), until=21_000)
    assert [(t.cause, t.at - START) for t in output] == [("checkpoint_overdue", 21_000)]


def test_what_is_open_of_a_job_is_closed_when_its_name_shows_that_nobody_wants_it() -> None:
    played = Played(live(overrides=[by_job("orders", "checkpoint_overdue", enabled=False)]))
    job = {"job": "a" * 32}
    output = played.take(log("checkpoint_expired", 0, 1, checkpoint="1", **job))
    output += played.take(log("job_initializing", 5_000, 2, name="orders", **job), until=100_000)
    assert [(t.transition, t.reason) for t in output] == [
        ("opened", ""),
        ("resolved", "detector checkpoint_overdue was disabled"),
    ]


def test_a_job_that_metrics_alone_name_is_matched_by_that_name() -> None:
    own = in_order(events("checkpoint-creep-gauges-only"))
    (job,) = jobs_found("checkpoint_duration_creep", own)
    (name,) = {s.labels["job_name"] for e in own for s in getattr(e, "samples", ()) if s.labels.get("job_id") == job}
    off = by_job(name, "checkpoint_duration_creep", enabled=False)
    assert jobs_found("checkpoint_duration_creep", own, overrides=[off]) == set()


@laws
@given(stream=made_up(), cuts=st.lists(st.integers(0, 100), max_size=10))
def test_overrides_by_names_that_come_late_and_change_do_not_depend_on_the_cuts(
    stream: list[Event], cuts: list[int]
) -> None:
    overrides = [{"job": "orders", "detectors": OTHER}, {"job": "pay*", "detectors": HIGH}]
    published = live(overrides=overrides)
    end = stream[-1].timestamp + 2_000_000
    assert encoded(run(stream, cuts, end, published)) == encoded(run(stream, (), end, published))


@pytest.mark.parametrize(
    ("override", "place", "text"),
    [
        (
            {"job": "x", "detectors": {"taskmanager_lost": {"confirmation_delay": "3s"}}},
            "taskmanager_lost",
            "cannot be overridden by job",
        ),
        ({"detectors": {"restart_lop": {"count": 4}}}, "restart_lop", "Extra inputs"),
        ({"detectors": {"restart_loop": {"cont": 4}}}, "cont", "Extra inputs"),
        ({"detectors": {"restart_loop": {"window": 5}}}, "window", "5m"),
        ({"detectors": {"restart_loop": {"count": 1}}}, "count", "greater than or equal to 2"),
        ({"detectors": {"restart_loop": None}}, "restart_loop", "dictionary"),
        ({"job": "~(", "detectors": {"restart_loop": {"count": 4}}}, "job", "is not valid"),
        ({"detectors": {}}, "detectors", "at least 1"),
    ],
)
def test_what_is_wrong_with_an_override_is_reported_with_its_place(override: Any, place: str, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        LiveSettings.model_validate({"overrides": [override]})
    (error,) = caught.value.errors()
    assert place in error["loc"]
    assert text in error["msg"]


def test_a_value_means_the_same_however_it_is_written() -> None:
    one = live(overrides=[by_job("x", "restart_loop", window="5m", enabled="no")])
    other = live(overrides=[by_job("x", "restart_loop", window="300s", enabled=False)])
    assert one.hash == other.hash


def test_each_per_job_kind_has_its_scenario_and_its_thresholds_here() -> None:
    kinds = {d.kind for d in PER_JOB}
    assert kinds == FOUND_IN.keys() == OTHER.keys()
    # No threshold decides whether these are reported.
    by_a_line = {"job_failed", "network_buffers_exhausted", "restore_failed", "sink_data_lost", "transaction_timeout"}
    assert kinds - HIGH.keys() == by_a_line
