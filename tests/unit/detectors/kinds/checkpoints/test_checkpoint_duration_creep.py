"""Growing checkpoint durations are distinguished from anything that only looks like them; forecasts come true."""

import math
import random
from collections.abc import Callable, Iterable

import pytest

from detectors.flink.topology import InputRate
from detectors.incident import Finding
from tests.unit.detectors.story import JOB, MINUTE, Followed
from tests.unit.detectors.streams import START

Durations = Callable[[int], float]


class Watched(Followed):
    """The checkpoints of a job, one after the other."""

    def took(self, duration: float, size: int = 1_000_000, gap: int = MINUTE, kind: str = "") -> list[Finding]:
        """The findings of one checkpoint; the next one is triggered `gap` after it, or when it has completed."""
        self.checkpoint(round(duration), size=size, kind=kind).gap(max(gap, round(duration)))
        return self.findings()

    def run(self, durations: Iterable[float], gap: int = MINUTE, size: Durations = lambda i: 1e6) -> list[Finding]:
        """The findings of all of them."""
        return [f for i, d in enumerate(durations) for f in self.took(d, round(size(i)), gap)]

    def open(self) -> bool:
        """Whether a creep goes on."""
        return self.view.state.jobs[JOB].open is not None


def watch(**config: object) -> Watched:
    return Watched("checkpoint_duration_creep", **config)


def noisy(shape: Durations, count: int, sigma: float, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [shape(i) * chance.lognormvariate(0, sigma) for i in range(count)]


def creep(i: int) -> float:
    """Flat at 8 s for an hour, then half a second more with every checkpoint."""
    return 8_000 + max(0, i - 60) * 500


@pytest.mark.parametrize("seed", range(12))
def test_a_creep_is_reported_after_a_quarter_of_growth_and_within_25_checkpoints(seed: int) -> None:
    watched = watch()
    for i, duration in enumerate(noisy(creep, 90, 0.15, seed)):
        if watched.took(duration):
            assert 8_000 * 1.25 <= creep(i) <= creep(60 + 25)
            return
    raise AssertionError("never reported")


@pytest.mark.parametrize("seed", range(6))
def test_half_way_the_forecast_is_right_within_a_factor_of_two(seed: int) -> None:
    watched = watch(timeout="100s")
    reported = watched.run(noisy(creep, 150, 0.15, seed))
    truth = START + (60 + 184) * MINUTE
    forecast = reported[-1].forecast
    assert forecast is not None
    assert "timeout" in forecast.what
    left = truth - reported[-1].at
    assert left / 2 <= forecast.at - reported[-1].at <= left * 2
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
    watched = watch(timeout="20m")
    reported = watched.run(durations, gap)
    assert reported
    assert all(f.closed_at is None for f in reported)


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
def test_what_only_looks_like_a_creep_is_not_reported(shape: Durations, gap: int, sigma: float) -> None:
    assert watch().run(noisy(shape, 500, sigma), gap) == []


def test_noise_of_any_strength_is_no_trend() -> None:
    for sigma in (0.5, 1.0):
        assert watch().run(noisy(lambda i: 3_000, 1_500, sigma)) == []


def test_a_great_daily_peak_is_known_from_the_second_day_on() -> None:
    watched = watch()
    watched.run(noisy(lambda i: 24_000 - 16_000 * math.cos(i / 144 * 2 * math.pi), 216, 0.1), 10 * MINUTE)
    assert not watched.open()
    later = noisy(lambda i: 24_000 - 16_000 * math.cos((i + 216) / 144 * 2 * math.pi), 800, 0.1, seed=2)
    assert watched.run(later, 10 * MINUTE) == []


def test_savepoints_the_first_after_a_restore_and_full_ones_among_incremental_do_not_count() -> None:
    watched = watch()
    for i in range(200):
        watched.took(1_000 + i % 7, 1_000_000)
        watched.took(5_000 + i * 100, 1_000_000, kind="SavepointType{name='Savepoint'}")
        if i % 5 == 0:
            watched.took(5_000 + i * 100, 80_000_000)
        if i % 9 == 0:
            watched.gap(-1).line("job_restored", job=JOB).gap(1)
            watched.took(5_000 + i * 100)
    assert not watched.open()
    assert {p.value for p in watched.view.state.jobs[JOB].durations.history.points(0)} == {
        1_000.0 + i for i in range(7)
    }


def test_a_failover_in_between_does_not_end_the_creep() -> None:
    watched, reported = watch(), []
    for i, duration in enumerate(noisy(creep, 100, 0.1)):
        if i == 70:
            watched.gap(-10).state("RESTARTING").gap(5).line("job_restored", job=JOB).gap(5)
        reported += watched.took(duration)
    assert reported
    assert watched.open()


def test_it_ends_when_the_durations_are_back() -> None:
    watched = watch()
    watched.run(noisy(creep, 120, 0.1))
    reported = watched.run(noisy(lambda i: 8_500, 10, 0.1))
    assert [f.closed_at is not None for f in reported] == [True]
    assert reported[0].closed_because.startswith("the last 6 checkpoints took ")


def test_it_ends_when_the_durations_no_longer_grow() -> None:
    watched = watch()
    watched.run(noisy(creep, 120, 0.1))
    reported = watched.run(noisy(lambda i: 38_000, 300, 0.1))
    assert reported[-1].closed_at is not None
    assert "no longer grows" in reported[-1].closed_because


@pytest.mark.parametrize("state", ["CANCELED", "FINISHED", "FAILED"])
def test_it_ends_with_the_job_and_with_a_start_from_a_savepoint(state: str) -> None:
    watched = watch()
    watched.run(noisy(creep, 120, 0.1))
    assert [f.closed_because for f in watched.state(state).findings()] == [f"the job is {state}"]
    watched = watch()
    watched.run(noisy(creep, 120, 0.1))
    restored = watched.line("job_restored", job=JOB, text=f"Starting job {JOB} from savepoint s3://b/savepoint-1 ()")
    assert [f.closed_because for f in restored.findings()] == ["the job was started from a savepoint"]


def test_critical_only_when_the_timeout_is_less_than_an_hour_away() -> None:
    near, far = watch(timeout="50s"), watch()
    assert near.run(noisy(creep, 100, 0.1))[-1].severity == "critical"
    assert far.run(noisy(creep, 100, 0.1))[-1].severity == "warning"


def test_the_timeout_is_learned_from_the_configuration_and_better_from_an_expiry() -> None:
    def limit(watched: Watched) -> float | None:
        series = watched.run(noisy(creep, 80, 0.05))[-1].series
        return series.threshold if series is not None else None

    assert limit(watch().line("checkpoint_timeout_set", value="30 s")) == 30
    learned = watch().line("checkpoint_timeout_set", value="30 s").triggered()
    assert limit(learned.expired(at="20 s").at("1 min")) == 20


def test_it_reports_whether_the_state_grows_or_only_the_time() -> None:
    with_state = watch().run(noisy(creep, 100, 0.1), size=lambda i: 1e8 + max(0, i - 60) * 1e7)
    assert "state size grew too, from 1" in with_state[-1].summary
    assert "state size stays at" in watch().run(noisy(creep, 100, 0.1))[-1].summary


def test_without_lines_the_gauge_is_followed_one_sample_a_record() -> None:
    watched = watch()
    for i, duration in enumerate(noisy(creep, 120, 0.1)):
        at = i * MINUTE
        for scrape in (at + 20_000, at + 40_000):
            watched.measure("last_checkpoint_duration", round(duration), scrape, job_id=JOB)
            watched.measure("completed_checkpoints", i + 1, scrape, job_id=JOB)
            watched.measure("last_checkpoint_size", 1e6, scrape, job_id=JOB)
    findings = watched.findings()
    assert findings
    assert findings[-1].evidence[-1].text.startswith("lastCheckpointDuration ")
    assert set(watched.readings()) == {
        "checkpoint_duration_slope_ratio",
        "checkpoint_limit_reached_timestamp_seconds",
        "checkpoint_duration_last_seconds",
    }


def test_a_gauge_that_stands_still_is_one_checkpoint() -> None:
    watched = watch()
    for i in range(50):
        watched.measure("last_checkpoint_duration", 800, i * 15_000, job_id=JOB)
    assert watched.view.state.jobs[JOB].durations.seen == 1


def test_durations_that_grow_with_the_input_are_load() -> None:
    def rising(load: bool) -> bool:
        watched = watch()
        reported: list[Finding] = []
        for i, duration in enumerate(noisy(creep, 110, 0.1)):
            rate = creep(i) if load else 8_000.0
            watched.topology.intake = {JOB: {0: InputRate(0, 0, round(rate))}}
            reported += watched.took(duration)
        return bool(reported)

    assert rising(load=False)
    assert not rising(load=True)


def levels(watched: Watched, *seconds: float, hours: float = 3, gap: int = MINUTE, sigma: float = 0.1) -> list[Finding]:
    """The findings of durations that stay for hours at each level and move to the next one within minutes."""
    chance, found, before = random.Random(5), list[Finding](), seconds[0]
    for level in seconds:
        left = hours * 60 * MINUTE
        for n in range(int(left)):
            on_the_way = min(1.0, n * gap / (3 * MINUTE))
            duration = before ** (1 - on_the_way) * level**on_the_way * 1000 * chance.lognormvariate(0, sigma)
            found += watched.took(duration, 100_000_000, gap)
            left -= max(gap, duration)
            if left <= 0:
                break
        before = level
    return found


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.2])
def test_durations_that_grow_in_steps_beyond_the_interval_are_one_finding(sigma: float) -> None:
    found = levels(watch(), 8, 21, 55, 130, sigma=sigma)
    assert found
    assert all(f.closed_at is None for f in found)
    assert len({f.subject for f in found}) == 1
    assert found[0].at > START + 6 * 60 * MINUTE, "21 s are harmless"
    assert "state size stays" in found[-1].summary
    assert {f.severity for f in found} == {"warning"}


def test_a_step_is_told_with_what_it_takes_of_the_limits() -> None:
    found = levels(watch(), 8, 130)
    assert "in a step" in found[0].summary
    assert "of the checkpoint interval of 60 s" in found[0].summary
    assert "of the checkpoint timeout of 10 min" in found[0].summary
    assert found[0].series is not None
    assert found[0].series.threshold == 60.0
    assert 30 * MINUTE <= found[0].at - START - 3 * 60 * MINUTE <= 45 * MINUTE


def test_half_of_the_timeout_is_critical_where_another_step_exceeds_it() -> None:
    found = levels(watch(timeout="150s"), 21, 100)
    assert found[0].severity == "critical"


@pytest.mark.parametrize(
    "steps",
    [(8, 21), (8, 21, 8, 21, 8), (40, 8, 40), (21, 8, 21, 5), (100, 100, 100)],
    ids=["harmless", "up and down", "rescaled", "restarted", "always beyond the interval"],
)
def test_steps_that_do_not_matter_are_not_reported(steps: tuple[float, ...]) -> None:
    assert levels(watch(), *steps) == []


def test_a_job_that_catches_up_after_a_restart_has_long_checkpoints_for_a_while() -> None:
    watched = watch()
    assert levels(watched, 8) == []
    assert levels(watched, 130, hours=0.4) == []
    assert levels(watched, 8) == []


def test_a_savepoint_amid_and_what_waits_for_it_are_no_step() -> None:
    watched = watch()
    for i in range(400):
        watched.took(8_000 if i % 100 != 99 else 130_000, kind="Savepoint" if i % 100 == 50 else "")
        assert not watched.open()


def test_a_step_ends_when_the_durations_are_back() -> None:
    watched = watch()
    found = levels(watched, 8, 130, 8)
    assert found[-1].closed_at is not None
    assert not watched.open()


def test_a_level_that_has_lasted_for_days_is_the_usual_one_until_the_next_step() -> None:
    watched = watch()
    found = levels(watched, 8, *[130] * 20)
    assert [f.closed_at is None for f in found] == [True, False]
    assert "no longer grows" in found[-1].closed_because
    assert levels(watched, *[130] * 4) == []
    assert levels(watched, 130, 350)[0].closed_at is None


def test_a_daily_step_is_known_from_the_second_day_on() -> None:
    watched, chance, at = watch(), random.Random(6), list[float]()
    for minute in range(5 * 24 * 60):
        if chance.random() < 0.5:
            level = 80_000 if 8 <= minute / 60 % 24 < 20 else 40_000
            found = watched.at(minute * MINUTE).took(level * chance.lognormvariate(0, 0.1), gap=MINUTE)
            at += [minute / 1_440 for f in found if f.closed_at is None]
    assert all(day < 1 for day in at)
