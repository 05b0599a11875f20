"""Records that a sink loses or cannot write: lines of the committer, and counters that rise for long enough."""

import pytest

from detectors.events.event import Sample
from detectors.events.names import filtered
from detectors.incident import Finding, Transition
from tests.unit.detectors.story import HOUR, JOB, MINUTE, OTHER, SECOND, START, USER, Story, follow

TM = "tm-1:6122-aaaaaa"
OUT, SEND, SENT = "records_out_errors", "records_send_errors", "records_sent"


def counter(name: str, value: float, *, subtask: int = 0, job: str = JOB) -> Sample:
    labels = {"job_id": job, "job_name": "orders", "tm_id": filtered(TM), "task_id": "e" * 32}
    labels |= {"operator_name": "Sink: out", "operator_id": "c" * 32, "subtask_index": str(subtask)}
    return Sample(name, labels, value)


class Sink(Story):
    """A job with a sink, whose counters are scraped."""

    def not_committed(self, how: str, at: int, **more: str) -> "Sink":
        """The committer of a TaskManager writes that it could not commit a transaction."""
        return self.by("tm-1").line(f"transaction_{how}", at, **more).by("jm")

    def counts(
        self, *values: int, every: int = 15 * SECOND, at: int = MINUTE, name: str = OUT, sent: int = 0
    ) -> "Sink":
        """One scrape for each value of a counter of errors, with so many records sent in between."""
        for n, value in enumerate(values):
            self.scrape(counter(name, value), counter(SENT, n * sent), at=at + n * every)
        return self


def sink(*more: str) -> Sink:
    return Sink("sink_data_lost", *more).runs(0)


def last(history: Story, until: int = 5 * MINUTE) -> Transition:
    return history.transitions(until)[-1]


def only(history: Story) -> Finding:
    (finding,) = last(history).findings
    return finding


def test_sinks_without_errors_are_healthy() -> None:
    assert sink().counts(*[0] * 40, sent=1_000).opened(HOUR) == []
    assert sink().counts(*[7] * 40, sent=1_000).opened(HOUR) == []


def test_a_burst_of_errors_is_not_this() -> None:
    assert sink().counts(0, 500, 500, 500, 500, 500, 500).opened(HOUR) == []
    assert sink().counts(1, 300, 600, 900, 900, 900, every=15 * SECOND).opened(HOUR) == []


def test_few_errors_are_not_this() -> None:
    assert sink().counts(*range(1, 10)).opened(HOUR) == []
    assert sink().counts(*range(1, 40), every=6 * MINUTE).opened(5 * HOUR) == []


def test_records_that_are_tried_again_now_and_then_are_not_this() -> None:
    assert sink().counts(*range(1, 100, 5), sent=1_000).opened(HOUR) == []


def test_a_burst_amid_single_errors_is_not_this() -> None:
    before, burst, after = range(1, 60, 2), (359, 659, 957), range(959, 1_020, 2)
    assert sink().counts(*before, *burst, *after, sent=1_000).opened(HOUR) == []


def test_counters_that_restarts_set_back_do_not_rise() -> None:
    assert sink().counts(*[90, 0, 80, 0, 70, 0] * 5).opened(HOUR) == ["sink_data_lost"]
    assert sink().counts(*[90, 80, 70, 60, 50, 40, 30, 20, 10]).opened(HOUR) == []


def test_a_fenced_transaction_in_a_recovery_is_expected_by_connector_4() -> None:
    history = sink().triggered(1, 0).restart(USER, at=HOUR)
    assert history.not_committed("perhaps_fenced", HOUR + MINUTE).opened(2 * HOUR) == []


@pytest.mark.parametrize("every", [5, 15, 30, 60])
@pytest.mark.parametrize("name", [OUT, SEND])
def test_a_counter_that_rises_for_a_minute_is_a_warning(every: int, name: str) -> None:
    history = sink().counts(*range(0, 1_000, 50), every=every * SECOND, name=name, sent=1_000)
    finding = only(history)
    assert (finding.subject, finding.severity, finding.entity["job_name"]) == (JOB, "warning", "orders")
    assert finding.summary.startswith("job orders loses or repeats records: Sink: out could not write ")
    assert finding.since == START + MINUTE + 2 * every * SECOND


def test_the_same_errors_in_both_metrics_count_once() -> None:
    history = sink()
    for n in range(8):
        history.scrape(*(counter(name, n * 10, subtask=s) for name in (OUT, SEND) for s in (0, 1)), at=n * 15 * SECOND)
    opened = history.transitions(5 * MINUTE)[0]
    assert "Sink: out could not write 100 records" in opened.summary


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("failed", "a transaction could not be committed"),
        ("fenced", "Kafka had fenced the producer of a transaction"),
        ("aborted", "Kafka had aborted a transaction"),
    ],
)
def test_a_transaction_that_is_lost_is_critical(how: str, words: str) -> None:
    finding = only(sink().not_committed(how, MINUTE))
    assert (finding.subject, finding.severity) == (JOB, "critical")
    assert finding.summary.startswith(f"a sink of job orders may have lost records: {words}")


def test_the_stack_trace_says_why() -> None:
    history = sink().by("tm-1").line("transaction_failed", MINUTE)
    history.stack(("org.apache.kafka.common.KafkaException", "Unexpected error in AddOffsets", ""), at=MINUTE)
    assert only(history).summary.endswith("committed: KafkaException: Unexpected error in AddOffsets")


def test_a_loss_is_worse_than_errors_and_errors_do_not_hide_it() -> None:
    history = sink().counts(*range(0, 1_000, 50)).not_committed("failed", 150 * SECOND)
    transitions = history.transitions(HOUR)
    assert [(t.transition, t.severity) for t in transitions[:2]] == [("opened", "warning"), ("updated", "critical")]
    assert "may have lost records" in transitions[-1].summary
    assert "times" not in transitions[-1].summary
    assert "transaction_failed" in transitions[-1].evidence[0].text


def test_it_ends_when_a_checkpoint_completes_five_minutes_after_the_last_sign() -> None:
    """The counter last rises at 2 min 35 s."""
    history = sink().counts(*range(0, 1_000, 50), every=5 * SECOND)
    history.triggered(1, 7 * MINUTE).completed(1, 7 * MINUTE + 34 * SECOND)
    assert history.transitions(8 * MINUTE)[-1].transition != "resolved"
    history.completed(2, 7 * MINUTE + 35 * SECOND)
    assert last(history, 20 * MINUTE).transition == "resolved"


def test_the_loop_that_a_failed_commit_makes_is_its_effect() -> None:
    history = sink("restart_loop")
    for n in range(1, 5):
        history.not_committed("failed", n * 20 * SECOND).restart(USER, at=n * 20 * SECOND + 100)
    transition = last(history)
    assert transition.cause == "sink_data_lost"
    assert {f.kind for f in transition.findings} == {"sink_data_lost", "restart_loop"}
    assert "4 times in 60 s" in transition.summary


def test_of_several_jobs_a_commit_names_only_the_process() -> None:
    history = sink().runs(1, job=OTHER, name="payments").not_committed("failed", MINUTE)
    finding = only(history)
    assert (finding.subject, finding.entity["host"]) == ("tm-1", "tm-1")
    assert finding.summary.startswith("a sink of a job may have lost records")


def test_counters_are_bounded() -> None:
    history = follow("sink_data_lost")
    for n in range(1_100):
        history.scrape(counter(OUT, 1.0, subtask=n))
    history.scrape(counter(OUT, 9e15, subtask=1_099), counter(OUT, -9e15, subtask=1_099), at=MINUTE)
    assert len(history.view.state.errors.counters) == 1_000
