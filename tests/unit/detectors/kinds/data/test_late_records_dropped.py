"""When dropped late records are worth a message, and when they are single ones."""

from collections.abc import Callable

import pytest

from detectors.events.event import MetricEvent, Sample
from detectors.incident import Transition
from tests.unit.detectors.story import HOUR, JOB, OTHER, SECOND, Story
from tests.unit.detectors.streams import START

Count = Callable[[int], float]


class Windows(Story):
    """A job with a window operator of two subtasks, which read 100 records/s together."""

    def drops(
        self, until: int, dropped: Count, *, start: int = 0, every: int = 5, job: str = JOB, read: bool = True
    ) -> "Windows":
        """The counters from `start` to `until` (s): `dropped` of the first subtask, by the time in s."""
        for at in range(start, until, every):
            samples = []
            for subtask in "01":
                labels = {"job_id": job, "operator_id": "d" * 32, "operator_name": "TumblingWindows"}
                labels["subtask_index"] = subtask
                late = dropped(at) if subtask == "0" else 0.0
                samples += [Sample("operator_records_in", labels, 50.0 * (at - start))] * read
                samples.append(Sample("late_records", labels, float(int(late))))
            self.scrape(*samples, at=at * SECOND)
        return self

    def reported(self) -> list[Transition]:
        """The transitions of two hours."""
        return self.transitions(2 * HOUR)

    def what(self) -> list[str]:
        """The kinds of transitions."""
        return [t.transition for t in self.reported()]


def windows(*more: str) -> Windows:
    return Windows("late_records_dropped", *more)


def since(start: int, rate: float) -> Count:
    """So many records a second are dropped from `start` on."""
    return lambda at: max(at - start, 0) * rate


# Healthy


def test_an_operator_that_drops_nothing_is_nothing() -> None:
    assert windows().drops(1_200, lambda _: 0).what() == []


def test_single_late_records_are_nothing() -> None:
    assert windows().drops(3_600, lambda at: at // 100).what() == []


def test_one_burst_of_late_records_is_nothing() -> None:
    assert windows().drops(1_200, lambda at: 900 if at >= 600 else 0).what() == []


def test_a_share_below_one_percent_is_nothing_however_many_they_are() -> None:
    assert windows().drops(3_600, since(0, 0.8)).what() == []


def test_records_that_were_dropped_before_the_first_scrape_are_nothing() -> None:
    assert windows().drops(1_200, lambda _: 50_000).what() == []


@pytest.mark.parametrize("wrong", [5, 10, 25])
def test_wrong_samples_of_zero_do_not_count_what_was_dropped_before_again(wrong: int) -> None:
    """Single late records of an hour add up to 36, which is no incident, however often they are seen to be back."""
    assert windows().drops(3_600, lambda at: 0 if at and at % 100 < wrong else 400 + at // 100).what() == []


def test_a_small_share_while_a_restarted_job_catches_up_is_nothing() -> None:
    history = windows().drops(300, lambda _: 0).line("job_restored", 301 * SECOND, job=JOB)
    assert history.drops(900, lambda at: min(at - 310, 120) * 2, start=310).what() == []


def test_a_counter_without_the_input_of_its_operator_has_no_share() -> None:
    assert windows().drops(1_200, since(300, 20), read=False).what() == []


def test_counters_that_begin_again_in_a_new_attempt_are_not_drops() -> None:
    history = windows().drops(300, lambda _: 7)
    for start in range(300, 1_500, 300):
        history.state("RESTARTING", at=start * SECOND).drops(start + 300, lambda _: 0, start=start + 5)
    assert history.what() == []


# Incidents


@pytest.mark.parametrize(("every", "most"), [(5, 90), (15, 120), (60, 300)])
def test_a_share_of_dropped_records_is_a_warning_that_names_the_operator(every: int, most: int) -> None:
    found = windows().drops(1_500, since(600, 5), every=every).reported()
    assert [t.transition for t in found][:1] == ["opened"]
    assert found[0].severity == "warning"
    assert found[0].findings[0].entity["task"] == "TumblingWindows"
    assert (found[0].at - START) / SECOND - 600 <= most
    assert "of its input" in found[0].summary


def test_half_of_the_input_is_critical() -> None:
    found = windows().drops(1_500, since(300, 80)).reported()
    assert found[-1].severity == "critical"
    assert len([t for t in found if t.transition == "opened"]) == 1
    assert len([t for t in found if t.transition == "updated"]) <= 5


def test_many_drops_right_after_a_restart_are_reported() -> None:
    history = windows().line("job_restored", 1 * SECOND, job=JOB)
    assert history.drops(280, since(10, 30), start=10).what()[:1] == ["opened"]


# Its end


@pytest.mark.parametrize("every", [5, 15, 30, 60])
def test_it_ends_when_nothing_was_dropped_for_a_whole_window(every: int) -> None:
    history = windows().drops(1_800, lambda at: min(max(at - 600, 0), 300) * 5, every=every)
    found = history.reported()
    assert [t.transition for t in found if t.transition != "updated"] == ["opened", "resolved"]
    assert not [t.reason for t in found if "recurred" in t.reason]
    assert 900 + 240 <= (found[-1].at - START) / SECOND <= 900 + 480


def test_it_does_not_end_when_samples_end() -> None:
    assert "resolved" not in windows().drops(900, since(600, 5)).what()


def test_it_does_not_end_between_bursts() -> None:
    history = windows().drops(3_600, lambda at: at // 60 * 300)
    assert history.what().count("opened") == 1
    assert "resolved" not in history.what()


def test_it_ends_with_its_job() -> None:
    found = windows().drops(900, since(600, 5)).state("FINISHED", at=901 * SECOND).reported()
    assert found[-1].transition == "resolved"


def test_jobs_whose_operators_have_the_same_ids_are_kept_apart() -> None:
    history = windows().drops(900, since(300, 5)).drops(900, lambda _: 0, job=OTHER)
    assert {t.job_id for t in history.reported()} == {JOB}


def test_one_sample_a_record_reports_the_same_incident_as_a_whole_scrape() -> None:
    whole, single = windows().drops(900, since(300, 5)), windows()
    for event in whole.events:
        assert isinstance(event, MetricEvent)
        for sample in event.samples:
            single.scrape(sample, at=event.time - START)
    assert [t.transition for t in whole.reported()] == [t.transition for t in single.reported()]
    assert whole.what()[:1] == ["opened"]
