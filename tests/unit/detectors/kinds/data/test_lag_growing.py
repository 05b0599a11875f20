"""When a source falls behind, how that is told from a backlog that is read, and when it is over."""

from collections.abc import Callable

import pytest

from detectors.events.event import Sample
from detectors.incident import Transition
from tests.unit.detectors.story import HOUR, JOB, MINUTE, OTHER, SECOND, Story

SOURCE = "Source:_orders"
Lag = Callable[[int], float | None]
"""A lag in s by the time in s; None where the source has none."""


class Reading(Story):
    """A job whose source has two subtasks, scraped together."""

    def lags(
        self,
        until: int,
        lag: Lag,
        *,
        start: int = 0,
        every: int = 5,
        read: float = 1_000,
        job: str = JOB,
        **more: Lag,
    ) -> "Reading":
        """The event-time lag of both subtasks from `start` to `until` (s); `more` are other measures by name."""
        for at in range(start, until, every):
            samples = []
            for subtask in "01":
                labels = {"job_id": job, "operator_id": "c" * 32, "operator_name": SOURCE, "subtask_index": subtask}
                values = {"event_time_lag": lag(at)} | {name: value(at) for name, value in more.items()}
                for name, value in values.items():
                    if value is not None:
                        ms = name == "event_time_lag"
                        samples.append(Sample(name, labels, value * 1_000 + at % 7 if ms else value))
                samples.append(Sample("operator_records_in", labels, read / 2 * at))
            self.scrape(*samples, at=at * SECOND)
        return self

    def reported(self, until: int = 6 * HOUR) -> list[Transition]:
        """The transitions."""
        return self.transitions(until)

    def what(self) -> list[str]:
        """The kinds of transitions."""
        return [t.transition for t in self.reported()]


def reading(*more: str) -> Reading:
    return Reading("lag_growing", *more)


def small(_: int) -> float:
    return 0.3


def behind(share: float, start: int = 60) -> Lag:
    """A source that processes this share of its input from `start` on."""
    return lambda at: 0.3 + max(at - start, 0) * (1 - share)


def drained(peak: float, at: int, pace: float = 1.0) -> Lag:
    """A lag that shrinks by so many s each second."""
    return lambda now: max(peak - (now - at) * pace, 0.3)


# Healthy


def test_a_small_lag_that_varies_is_nothing() -> None:
    assert reading().lags(1_200, lambda at: 2 + at * 37 % 11).what() == []


def test_a_constant_lag_is_nothing_however_large() -> None:
    assert reading().lags(1_200, lambda at: 900 + at * 37 % 3).what() == []


def test_a_backlog_that_is_read_after_a_start_is_nothing() -> None:
    assert reading().lags(1_200, drained(3 * 3_600, 0, 7)).what() == []


def test_a_restart_whose_backlog_is_read_is_nothing() -> None:
    history = reading().lags(300, small).state("RESTARTING", at=300 * SECOND).line("job_restored", 301_000, job=JOB)
    assert history.lags(900, drained(200, 480, 2), start=480).what() == []


def test_a_jump_that_stays_is_nothing() -> None:
    """Such as after an outage without any line about a restart."""
    assert reading().lags(600, lambda at: 0.3 if at < 300 else 250 + at % 3).what() == []


@pytest.mark.parametrize("every", [5, 15, 60])
@pytest.mark.parametrize("period", [30, 70, 100, 117])
def test_a_saw_tooth_is_nothing(every: int, period: int) -> None:
    assert reading().lags(7_200, lambda at: at % period * 0.5, every=every).what() == []


def test_teeth_that_are_long_enough_to_be_reported_are_so_twice_and_then_no_more() -> None:
    teeth = reading().lags(7_200, lambda at: at % 300 * 0.5)
    assert teeth.what().count("opened") <= 2
    assert teeth.reported()[-1].at < 1_700_000_000_000 + 1_800 * SECOND


def test_a_quiet_topic_keeps_the_lag_of_its_last_record_and_that_is_nothing() -> None:
    def last(at: int) -> float:
        return 0.3 + at // 300 * 200

    quiet = reading()
    for at in range(0, 1_800, 5):
        labels = {"job_id": JOB, "operator_id": "c" * 32, "operator_name": SOURCE, "subtask_index": "0"}
        quiet.scrape(Sample("event_time_lag", labels, last(at) * 1_000), at=at * SECOND)
    assert quiet.what() == []


def test_records_that_their_producer_sends_ever_later_are_not_the_jobs_lag() -> None:
    """The source waits for records most of the time, so it has read all of them."""
    late = reading().lags(1_200, behind(0.5), source_idle_time=lambda at: 40 if at % 4 else 0)
    assert late.what() == []


@pytest.mark.parametrize("known", [True, False])
def test_a_batch_that_is_written_once_an_hour_and_read_for_minutes_is_nothing(known: bool) -> None:
    """All its records have the same time, which falls behind by a second each second while they become fewer."""

    def age(at: int) -> float:
        return at % 3_600

    def unread(at: int) -> float | None:
        return max(600 - at % 3_600, 0) * 500 if known else None

    history = reading()
    for hour in range(0, 3 * 3_600, 3_600):
        history.lags(hour + 600, age, start=hour, pending_records=unread)
    assert history.what() == []


def test_lag_that_grows_faster_than_the_clock_is_that_of_older_records() -> None:
    assert reading().lags(600, lambda at: at * 20).what() == []


def test_a_source_without_event_time_or_records_is_nothing() -> None:
    unknown = reading().lags(900, lambda at: -0.001 if at % 7 == 0 else None)
    assert unknown.what() == []


def test_a_few_records_of_a_small_topic_are_nothing() -> None:
    few = reading().lags(900, lambda _: None, read=2, records_lag_max=lambda at: at / 10)
    assert few.what() == []


def test_a_peak_that_comes_every_day_is_reported_twice_and_then_no_more() -> None:
    history = reading()
    for day in range(4):
        noon = day * 86_400 + 43_200

        def peak(at: int, noon: int = noon) -> float:
            return max(0.3, 600 - abs(at - noon) * 0.4)

        history.lags(noon + 3_600, peak, start=noon - 3_600, every=60)
    opened = [t.opened_at for t in history.reported(5 * 86_400 * SECOND) if t.transition == "opened"]
    assert len(opened) == 2


# Incidents


@pytest.mark.parametrize(("every", "share", "most"), [(5, 0.5, 150), (5, 0.0, 150), (15, 0.5, 180), (60, 0.5, 600)])
def test_a_lag_that_grows_along_a_line_is_reported_within_minutes(every: int, share: float, most: int) -> None:
    found = reading().lags(1_800, behind(share, 600), every=every, read=share * 1_000).reported()
    assert [t.transition for t in found][:1] == ["opened"]
    assert found[0].cause == "lag_growing"
    assert found[0].severity == "warning"
    seconds = (found[0].at - 1_700_000_000_000) / SECOND - 600
    assert 60 <= seconds <= most


def test_the_finding_says_how_fast_it_falls_behind_what_share_is_processed_and_what_comes_next() -> None:
    found = reading().lags(420, behind(0.75), records_lag_max=lambda at: 10_000 + 250 * at).reported()[-1]
    assert found.findings[0].entity["task"] == SOURCE
    assert "grows by 15 s a minute" in found.summary
    assert "about 75% of its input" in found.summary
    assert "records are unread" in found.summary
    assert found.forecast is not None
    assert found.forecast.what == "the lag reaches 5 min"
    assert abs(found.forecast.at - (1_700_000_000_000 + (60 + 300 * 4) * SECOND)) < 60 * SECOND


def test_records_that_saw_between_fetches_do_not_hide_a_lag_that_grows() -> None:
    """pendingRecords is as old as the last fetch: it falls until the next one."""
    found = reading().lags(400, behind(0.5), pending_records=lambda at: 1_000 * (at - at % 30) - 500 * at + 40_000)
    assert found.what()[:1] == ["opened"]


def test_a_source_that_stands_is_reported_although_its_counts_of_records_do_not_change() -> None:
    found = reading().lags(400, behind(0.0), read=0, pending_records=lambda _: 700).reported()
    assert "none of its input" in found[0].summary


def test_a_job_without_event_time_is_judged_by_its_records() -> None:
    found = reading().lags(600, lambda _: None, read=2_000, records_lag_max=lambda at: max(at - 60, 0) * 1_000)
    first = found.reported()[0]
    assert "1,000 more each second" in first.summary
    assert "about 67% of its input" in first.summary


def test_lag_of_a_kinesis_shard_counts_too() -> None:
    found = reading().lags(400, lambda _: None, behind_latest=lambda at: max(at - 60, 0) * 500 + at % 3)
    assert found.what()[:1] == ["opened"]


def test_a_slow_growth_is_seen_over_a_longer_time() -> None:
    found = reading().lags(3_600, behind(0.95, 300)).reported()
    assert "about 95% of its input" in found[0].summary


def test_single_late_records_do_not_hide_a_lag_that_grows() -> None:
    found = reading().lags(600, lambda at: behind(0.5)(at) + (900 if at % 45 == 0 else 0))
    assert found.what()[:1] == ["opened"]


# Its end


def test_it_says_when_the_lag_is_drained_and_is_resolved_when_it_was_low_for_as_long_as_it_took_to_open() -> None:
    history = reading().lags(400, behind(0.5)).lags(1_200, drained(170, 400), start=400)
    found = history.reported()
    drains = [t for t in found if t.forecast is not None and t.forecast.what == "the lag is drained"]
    assert drains
    assert "catches up" in drains[0].summary
    assert abs(drains[0].forecast.at - (1_700_000_000_000 + 570 * SECOND)) < 15 * SECOND  # type: ignore[union-attr]
    assert found[-1].transition == "resolved"
    # Half of the peak 85 s after it, and two minutes of that.
    assert found[-1].at >= 1_700_000_000_000 + (400 + 85 + 120) * SECOND
    assert "the lag fell from 2 min 48 s to" in found[-1].reason


def test_a_single_late_record_is_not_the_peak_that_the_lag_has_fallen_from() -> None:
    history = reading().lags(400, behind(0.5)).lags(1_200, lambda at: 170 + (9_000 if at == 500 else at % 3), start=400)
    assert "resolved" not in history.what()


def test_it_stays_open_while_the_lag_stands() -> None:
    history = reading().lags(400, behind(0.5)).lags(1_200, lambda at: 170 + at % 3, start=400)
    assert "resolved" not in history.what()


def test_it_ends_with_its_job_and_is_one_incident_through_a_restart() -> None:
    history = reading().lags(400, behind(0.5)).state("RESTARTING", at=400 * SECOND)
    history.lags(900, lambda at: 190 + (at - 420) * 0.5, start=420)
    assert history.what().count("opened") == 1
    assert "resolved" not in history.what()
    assert history.state("CANCELED", at=901 * SECOND).what()[-1] == "resolved"


def test_a_lag_that_doubles_is_an_update_of_one_incident() -> None:
    what = reading().lags(1_500, behind(0.5)).what()
    assert what.count("opened") == 1
    assert 1 <= what.count("updated") <= 4


def test_jobs_whose_sources_have_the_same_ids_are_kept_apart() -> None:
    history = reading().lags(600, behind(0.5)).lags(600, small, job=OTHER)
    assert {t.job_id for t in history.reported()} == {JOB}


def test_one_sample_a_record_reports_the_same_as_a_whole_scrape() -> None:
    whole, single = reading().lags(600, behind(0.5)), reading()
    for event in whole.events:
        for sample in event.samples:  # type: ignore[union-attr]
            single.scrape(sample, at=event.time - 1_700_000_000_000)  # type: ignore[union-attr]
    reported = [(t.summary, t.at) for t in whole.reported()]
    assert reported
    assert [(t.summary, t.at) for t in single.reported()] == reported


def test_a_slow_operator_explains_the_lag_of_its_job() -> None:
    history = reading("backpressure").lags(900, behind(0.5))
    for n in range(1, 10):
        history.completed(n, n * 10 * SECOND)
    for at in range(100, 300, 10):
        for task, busy, waits in (("map", 10.0, 900.0), ("sink", 1_000.0, 0.0)):
            labels = {"job_id": JOB, "task_id": task, "task_name": task, "subtask_index": "0", "tm_id": "t"}
            history.scrape(
                Sample("busy_time", labels, busy), Sample("backpressured_time", labels, waits), at=at * SECOND
            )
    for n in range(4):
        history.completed(10 + n, (120 + n * 20) * SECOND, lasting="15 s")
    found = history.reported(30 * MINUTE)
    assert len({t.incident for t in found}) == 1
    assert found[-1].cause == "backpressure"
