"""Sources without data, distinguished by which other data continues; and every end that is no lost telemetry."""

import pytest

from detectors.events.event import Sample
from detectors.incident import Transition
from tests.unit.detectors.story import JOB, MINUTE, SECOND, Story
from tests.unit.detectors.streams import START

END, STOP = 10 * MINUTE, 5 * MINUTE


class Cluster(Story):
    """A cluster whose processes are scraped every ten seconds, and whose job completes checkpoints."""

    def scraped(self, at: int, tm: str = "", registered: int = -1, completed: int = -1) -> "Cluster":
        """One scrape of a TaskManager, or of the JobManager."""
        labels = {"tm_id": tm, "host": tm} if tm else {"host": "jm"}
        samples = [Sample("heap_used" if tm else "jm_heap_used", labels, 1e8)]
        if registered >= 0:
            samples.append(Sample("registered_task_managers", labels, registered))
        if completed >= 0:
            samples.append(Sample("completed_checkpoints", {**labels, "job_id": JOB}, completed))
        return self.scrape(*samples, at=at, source=tm or "jm", host=tm or "jm")

    def scrapes(
        self, tm: str = "", start: int = 0, until: int = END, registered: int = -1, counting: bool = False
    ) -> "Cluster":
        """Scrapes every ten seconds; `counting`: with the job's checkpoints so far."""
        for at in range(start, until, 10 * SECOND):
            self.scraped(at, tm, registered, at // (30 * SECOND) if counting else -1)
        return self

    def reported(self, until: int = END) -> list[Transition]:
        """The transitions until then."""
        return self.transitions(until)


def cluster(until: int = END) -> Cluster:
    """The log of a job that runs and completes a checkpoint every half minute."""
    return Cluster("telemetry_lost").runs(0).checkpoints(until // (30 * SECOND), every="30 s", lasting="1 s")


def with_taskmanagers(until: int = END) -> Cluster:
    """The log, the TaskManager `a`, and `b`, which falls silent at STOP."""
    return cluster(until).scrapes("a", until=until).scrapes("b", until=STOP)


def test_a_taskmanager_that_the_jobmanager_still_counts_is_silent_and_named() -> None:
    found = with_taskmanagers().scrapes(registered=2).reported()
    assert [(t.transition, t.severity) for t in found] == [("opened", "warning")]
    assert found[0].findings[0].entity["tm_id"] == "b"
    assert 60_000 <= found[0].at - (START + STOP - 10 * SECOND) <= 75_000


def test_one_scrape_between_two_gaps_does_not_end_it() -> None:
    found = with_taskmanagers().scrapes(registered=2)
    for at in (7 * MINUTE, 7 * MINUTE + 20 * SECOND):
        found.scraped(at, "b")
    assert [t.transition for t in found.reported()] == ["opened"]
    assert [t.transition for t in found.scraped(8 * MINUTE, "b").reported()] == ["opened", "resolved"]


def test_it_is_over_when_it_is_seen_again() -> None:
    found = with_taskmanagers().scrapes("b", start=8 * MINUTE).scrapes(registered=2).reported()
    assert [t.transition for t in found] == ["opened", "resolved"]


def test_one_that_makes_room_for_others_is_not_seen_again() -> None:
    history = with_taskmanagers().scrapes(registered=2)
    for number in range(500):
        history.scraped(8 * MINUTE, f"new-{number}")
    assert [t.transition for t in history.reported()] == ["opened"]


def test_a_log_that_contains_no_end_speaks_for_the_taskmanager() -> None:
    assert [t.severity for t in with_taskmanagers().reported()] == ["warning"]


def test_a_taskmanager_that_the_jobmanager_no_longer_counts_has_gone() -> None:
    assert with_taskmanagers().scrapes(registered=2, until=STOP).scrapes(registered=1, start=STOP).reported() == []


@pytest.mark.parametrize(
    ("meaning", "after", "source", "fields"),
    [
        ("tm_closed", 0, "jm", {"tm": "b", "reason": "TaskExecutor exceeded the idle timeout."}),
        ("tm_unreachable", 0, "jm", {"tm": "b"}),
        ("tm_registered", 20 * SECOND, "jm", {"tm": "c"}),
        ("process_signalled", 0, "b", {"signal": "15"}),
    ],
    ids=["released", "lost", "replaced", "stopped"],
)
def test_a_taskmanager_whose_end_is_reported_is_not_silent(
    meaning: str, after: int, source: str, fields: dict[str, str]
) -> None:
    history = with_taskmanagers().scrapes(registered=2)
    history.line("tm_started", 0, source="b", tm="b").line("tm_registered", 0, source="b", tm="b")
    assert history.line(meaning, STOP + after, source=source, **fields).reported() == []


def test_a_new_id_on_a_host_replaces_the_old_one() -> None:
    assert with_taskmanagers().scrapes("c", start=STOP + 30 * SECOND).scrapes(registered=2).reported() == []


def test_metrics_that_all_stop_while_the_log_goes_on_have_lost_their_way() -> None:
    found = cluster().scrapes("a", until=STOP).scrapes("b", until=STOP).scrapes(until=STOP).reported()
    assert [t.severity for t in found] == ["warning"]
    assert "Metrics are not reaching Kafka" in found[0].summary


def test_a_log_that_stops_while_checkpoints_are_counted_has_lost_its_way() -> None:
    found = cluster(STOP).scrapes("a").scrapes(counting=True).reported()
    assert [t.severity for t in found] == ["warning"]
    assert "Its log is not reaching Kafka" in found[0].summary


def test_a_log_that_stops_with_the_checkpoints_is_no_silence() -> None:
    history = cluster(STOP).scrapes("a").scrapes(counting=True, until=STOP)
    for at in range(STOP, END, 10 * SECOND):
        history.scraped(at, completed=10)
    assert history.reported() == []


def test_a_cluster_of_which_nothing_arrives_any_more_is_reported_once() -> None:
    history = cluster(STOP).scrapes("a", until=STOP).scrapes("b", until=STOP).scrapes(until=STOP)
    assert history.reported(STOP + 4 * MINUTE) == []
    found = history.reported(STOP + 6 * MINUTE)
    assert [t.transition for t in found] == ["opened"]
    assert found[0].summary.startswith("no data from this cluster: no metrics of its 3 processes")


@pytest.mark.parametrize(
    ("meaning", "fields"),
    [
        ("job_state", {"job": JOB, "name": "orders", "before": "RUNNING", "state": "FINISHED"}),
        ("job_ended", {"job": JOB, "state": "CANCELED"}),
        ("cluster_ending", {"what": "X", "status": "SUCCEEDED"}),
        ("process_signalled", {"signal": "15"}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_cluster_that_was_stopped_or_whose_job_is_over_is_not_silent(meaning: str, fields: dict[str, str]) -> None:
    history = cluster(STOP).line(meaning, STOP, **fields).scrapes("a", until=STOP).scrapes(until=STOP)
    assert history.reported(60 * MINUTE) == []


def test_a_cluster_known_by_its_log_alone_that_ends_is_not_worth_a_warning() -> None:
    assert cluster(STOP).reported(60 * MINUTE) == []


def test_what_was_never_regular_is_never_silent() -> None:
    few = cluster().scrapes("a").scrapes(registered=2)
    for at in (0, 10 * SECOND, 20 * SECOND):
        few.scraped(at, "b")
    assert few.reported() == []


def test_a_source_that_is_scraped_rarely_is_given_the_time() -> None:
    rare = cluster(22 * MINUTE).scrapes("a", until=22 * MINUTE).scrapes(registered=2, until=22 * MINUTE)
    for at in range(0, 14 * MINUTE, 2 * MINUTE):
        rare.scraped(at, "b")
    assert rare.reported(21 * MINUTE) == []
    assert len(rare.reported(23 * MINUTE)) == 1


def test_a_jobmanager_that_another_has_followed_is_not_silent() -> None:
    history = cluster(STOP).scrapes("a").scrapes(until=STOP)
    assert len(history.reported()) == 1
    for at in range(STOP, END, 10 * SECOND):
        history.scrape(Sample("jm_heap_used", {"host": "x"}, 1), at=at, source="x", host="x")
    assert history.reported() == []
