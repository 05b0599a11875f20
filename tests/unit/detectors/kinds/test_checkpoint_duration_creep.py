"""Growing checkpoints are told from everything that only looks like it, and the forecast comes true."""

import math
import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.detector import Now
from detectors.events.event import Event
from detectors.flink.checkpoint_durations import flink_duration
from detectors.flink.topology import Topology
from detectors.incident import Finding
from detectors.kinds.checkpoint_duration_creep import CheckpointDurationCreep, JobCreep
from detectors.numerics.multiscale import MultiscaleSeries, Point
from tests.unit.detectors.streams import START, log, metric

JOB = "a" * 32
MINUTE, HOUR = 60_000, 3_600_000
Durations = Callable[[int], float]


class Watched:
    """The detector alone, and the checkpoints of a job written to it."""

    def __init__(self, **config: object) -> None:
        self.detector = CheckpointDurationCreep(CheckpointDurationCreep.Config(**config))
        self.state, self.topology = self.detector.initial(), Topology()
        self.at, self.number = 0, 0

    def take(self, event: Event) -> list[Finding]:
        now = Now(event.timestamp, event.time if hasattr(event, "time") else event.local_time)
        return list(self.detector.update(self.state, event, now, self.topology))

    def checkpoint(self, duration: float, size: int = 1_000_000, gap: int = MINUTE, kind: str = "") -> list[Finding]:
        self.number += 1
        n = str(self.number)
        said = self.take(log("checkpoint_triggered", self.at, checkpoint=n, job=JOB, type=kind))
        done = log("checkpoint_completed", self.at + round(duration), checkpoint=n, job=JOB,
                   duration=str(round(duration)), bytes=str(size))  # fmt: skip
        said += self.take(done)
        self.at += max(gap, round(duration))
        return said

    def run(self, durations: Iterable[float], gap: int = MINUTE, size: Durations = lambda i: 1e6) -> list[Finding]:
        return [f for i, d in enumerate(durations) for f in self.checkpoint(d, round(size(i)), gap)]

    def open(self) -> bool:
        return self.state.jobs[JOB].open is not None


def noisy(shape: Durations, count: int, sigma: float, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [shape(i) * chance.lognormvariate(0, sigma) for i in range(count)]


def creep(i: int) -> float:
    """Flat at 8 s for an hour, then half a second more with every checkpoint."""
    return 8_000 + max(0, i - 60) * 500


@pytest.mark.parametrize("seed", range(12))
def test_a_creep_is_said_after_a_quarter_of_growth_and_within_25_checkpoints(seed: int) -> None:
    watched = Watched()
    for i, duration in enumerate(noisy(creep, 90, 0.15, seed)):
        if watched.checkpoint(duration):
            assert 8_000 * 1.25 <= creep(i) <= creep(60 + 25)
            return
    raise AssertionError("never said")


@pytest.mark.parametrize("seed", range(6))
def test_half_way_the_forecast_is_right_within_a_factor_of_two(seed: int) -> None:
    watched = Watched(timeout="100s")
    said = watched.run(noisy(creep, 150, 0.15, seed))
    truth = START + (60 + 184) * MINUTE
    forecast = said[-1].forecast
    assert forecast is not None
    assert "timeout" in forecast.what
    left = truth - said[-1].at
    assert left / 2 <= forecast.at - said[-1].at <= left * 2
    assert forecast.earliest <= forecast.at <= forecast.latest


@pytest.mark.parametrize(
    ("durations", "gap"),
    [
        (noisy(lambda i: 50 + max(0, i - 60) * 15, 200, 0.1), 1_000),
        (noisy(lambda i: 8_000 + max(0, i - 60) * 3_000, 130, 0.1), 10 * MINUTE),
        (noisy(lambda i: 300_000 + max(0, i - 60) * 3_000, 130, 0.05), 10 * MINUTE),
        (noisy(lambda i: 500 * 1.18 ** max(0, i - 6), 24, 0.05), 10_000),
        (noisy(lambda i: 8_000 * 2 ** (max(0, i - 100) / 60), 260, 0.2), MINUTE),
        ([d if i % 10 else d * 6 for i, d in enumerate(noisy(creep, 140, 0.1))], MINUTE),
    ],
    ids=["every second", "every ten minutes", "five minutes long", "exponential", "doubles hourly", "with GC spikes"],
)
def test_a_creep_is_found_on_every_scale(durations: list[float], gap: int) -> None:
    watched = Watched(timeout="20m")
    said = watched.run(durations, gap)
    assert said
    assert all(f.closed_at is None for f in said)


@pytest.mark.parametrize("sigma", [0.05, 0.15, 0.3])
@pytest.mark.parametrize(
    ("shape", "gap"),
    [
        (lambda i: 8_000, MINUTE),
        (lambda i: 8_000 if i < 100 else 20_000, MINUTE),
        (lambda i: 1_000 + 5_000 * min(i / 90, 1), MINUTE),
        (lambda i: 1_000 + 5_000 * min(i / 30, 1), 3 * MINUTE),
        (lambda i: 1_000 + 9_000 * (1 - math.exp(-i / 60)), MINUTE),
        (lambda i: 4_000 - 2_000 * math.cos(i / 144 * 2 * math.pi), 10 * MINUTE),
        (lambda i: 20 + min(i, 100) * 0.4, 10_000),
        (lambda i: 8_000 * (1 if i % 100 < 95 else i % 100 - 93), MINUTE),
    ],
    ids=["flat", "one jump", "fills up", "plateau", "saturates", "day and night", "milliseconds", "slow sink"],
)
def test_what_only_looks_like_a_creep_is_not_said(shape: Durations, gap: int, sigma: float) -> None:
    assert Watched().run(noisy(shape, 500, sigma), gap) == []


def test_noise_of_any_strength_is_no_trend() -> None:
    for sigma in (0.5, 1.0):
        assert Watched().run(noisy(lambda i: 3_000, 1_500, sigma)) == []


def test_a_great_daily_peak_is_known_from_the_second_day_on() -> None:
    watched = Watched()
    watched.run(noisy(lambda i: 24_000 - 16_000 * math.cos(i / 144 * 2 * math.pi), 216, 0.1), 10 * MINUTE)
    assert not watched.open()
    later = noisy(lambda i: 24_000 - 16_000 * math.cos((i + 216) / 144 * 2 * math.pi), 800, 0.1, seed=2)
    assert watched.run(later, 10 * MINUTE) == []


def test_savepoints_the_first_after_a_restore_and_full_ones_among_incremental_do_not_count() -> None:
    watched = Watched()
    for i in range(200):
        watched.checkpoint(1_000 + i % 7, 1_000_000)
        watched.checkpoint(5_000 + i * 100, 1_000_000, kind="SavepointType{name='Savepoint'}")
        if i % 5 == 0:
            watched.checkpoint(5_000 + i * 100, 80_000_000)
        if i % 9 == 0:
            watched.take(log("job_restored", watched.at - 1, job=JOB))
            watched.checkpoint(5_000 + i * 100)
    assert not watched.open()
    assert {p.value for p in watched.state.jobs[JOB].durations.history.points(0)} == {1_000.0 + i for i in range(7)}


def test_a_failover_in_between_does_not_end_the_creep() -> None:
    watched, said = Watched(), []
    for i, duration in enumerate(noisy(creep, 100, 0.1)):
        if i == 70:
            watched.take(log("job_state", watched.at - 10, job=JOB, state="RESTARTING"))
            watched.take(log("job_restored", watched.at - 5, job=JOB))
        said += watched.checkpoint(duration)
    assert said
    assert watched.open()


def test_it_ends_when_the_durations_are_back() -> None:
    watched = Watched()
    watched.run(noisy(creep, 120, 0.1))
    said = watched.run(noisy(lambda i: 8_500, 10, 0.1))
    assert [f.closed_at is not None for f in said] == [True]
    assert said[0].closed_because.startswith("the last 6 checkpoints took ")


def test_it_ends_when_the_durations_no_longer_grow() -> None:
    watched = Watched()
    watched.run(noisy(creep, 120, 0.1))
    said = watched.run(noisy(lambda i: 38_000, 300, 0.1))
    assert said[-1].closed_at is not None
    assert "no longer grow" in said[-1].closed_because


@pytest.mark.parametrize("state", ["CANCELED", "FINISHED", "FAILED"])
def test_it_ends_with_the_job_and_with_a_start_from_a_savepoint(state: str) -> None:
    watched = Watched()
    watched.run(noisy(creep, 120, 0.1))
    assert [f.closed_because for f in watched.take(log("job_state", watched.at, job=JOB, state=state))] == [
        f"the job is {state}"
    ]
    watched = Watched()
    watched.run(noisy(creep, 120, 0.1))
    restored = log("job_restored", watched.at, job=JOB)
    restored.text = f"Starting job {JOB} from savepoint s3://backup/savepoint-1 ()"
    assert [f.closed_because for f in watched.take(restored)] == ["the job started anew from a savepoint"]


def test_critical_only_when_the_timeout_is_less_than_an_hour_away() -> None:
    near, far = Watched(timeout="50s"), Watched()
    assert near.run(noisy(creep, 100, 0.1))[-1].severity == "critical"
    assert far.run(noisy(creep, 100, 0.1))[-1].severity == "warning"


def test_the_timeout_is_learned_from_the_configuration_and_better_from_an_expiry() -> None:
    watched = Watched()
    watched.take(log("checkpoint_timeout_set", 0, value="30 s"))
    watched.checkpoint(100)
    assert (
        watched.detector._limits(watched.state, watched.detector.config, watched.state.jobs[JOB].durations)[
            "the checkpoint timeout"
        ]
        == 30_000
    )
    watched.take(log("checkpoint_triggered", watched.at, checkpoint="2", job=JOB))
    watched.take(log("checkpoint_expired", watched.at + 20_000, checkpoint="2", job=JOB))
    assert (
        watched.detector._limits(watched.state, watched.detector.config, watched.state.jobs[JOB].durations)[
            "the checkpoint timeout"
        ]
        == 20_000
    )


def test_it_says_whether_the_state_grows_or_only_the_time() -> None:
    with_state = Watched().run(noisy(creep, 100, 0.1), size=lambda i: 1e8 + max(0, i - 60) * 1e7)
    assert "the state grows with them, from 1" in with_state[-1].summary
    assert "only the time grows" in Watched().run(noisy(creep, 100, 0.1))[-1].summary


def test_without_lines_the_gauge_is_followed_one_sample_a_record() -> None:
    watched, said = Watched(), []
    for i, duration in enumerate(noisy(creep, 120, 0.1)):
        at = i * MINUTE
        for scrape in (at + 20_000, at + 40_000):
            said += watched.take(metric("last_checkpoint_duration", scrape, round(duration), job_id=JOB))
            said += watched.take(metric("completed_checkpoints", scrape, i + 1, job_id=JOB))
            said += watched.take(metric("last_checkpoint_size", scrape, 1e6, job_id=JOB))
    assert said
    assert said[-1].evidence[-1].text.startswith("lastCheckpointDuration ")
    names = {r.name for r in watched.detector.readings(watched.state, said[-1].at, watched.topology)}
    assert names == {
        "checkpoint_duration_slope_ratio",
        "checkpoint_limit_reached_timestamp_seconds",
        "checkpoint_duration_last_seconds",
    }


def test_a_gauge_that_stands_still_is_one_checkpoint() -> None:
    watched = Watched()
    for i in range(50):
        watched.take(metric("last_checkpoint_duration", i * 15_000, 800, job_id=JOB))
    assert watched.state.jobs[JOB].durations.seen == 1


def test_durations_that_grow_with_the_input_are_load() -> None:
    def rising(load: bool) -> bool:
        watched = Watched()
        known = JobCreep()
        watched.state.jobs[JOB] = known
        said: list[Finding] = []
        for i, duration in enumerate(noisy(creep, 110, 0.1)):
            rate = creep(i) if load else 8_000.0
            watched.topology.intake = {JOB: {0: type("Intake", (), {"rate": rate})()}}
            said += watched.checkpoint(duration)
        return bool(said)

    assert rising(load=False)
    assert not rising(load=True)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 600_000), max_size=400))
def test_the_history_is_bounded_and_in_order(values: list[int]) -> None:
    history = MultiscaleSeries()
    for i, value in enumerate(values):
        history.add(Point(i, value))
    assert sum(map(len, history.scales)) <= 8 * 64
    assert len(history.points(0)) == min(len(values), 64)
    for scale in range(len(history.scales)):
        points = history.points(scale)
        assert [p.time for p in points] == sorted(p.time for p in points)
        assert all(min(values) <= p.value <= max(values) for p in points)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("30 s", 30_000), ("10min", 600_000), ("600000", 600_000), ("'2 minutes'", 120_000), ("500ms", 500), ("soon", 0)],
)
def test_durations_are_read_as_flink_writes_them(text: str, ms: int) -> None:
    assert flink_duration(text) == ms
