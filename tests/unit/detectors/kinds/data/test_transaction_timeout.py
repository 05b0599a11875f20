"""Kafka transactions that time out or are fenced: which signs, what the logs show before, and when it ends."""

import pytest

from detectors.incident import Finding, Transition
from tests.unit.detectors.story import HOUR, JOB, MINUTE, OTHER, SECOND, USER, Story, Thrown, follow

KAFKA = "org.apache.kafka.common.errors"
OLD_EPOCH: Thrown = (f"{KAFKA}.InvalidProducerEpochException", "Producer attempted to produce with an old epoch.", "")
FENCED: Thrown = (
    f"{KAFKA}.ProducerFencedException",
    "There is a newer producer with the same transactionalId which fences the current one.",
    "",
)
PID: Thrown = (f"{KAFKA}.InvalidPidMappingException", "The producer attempted to use a producer id that is not", "")
LIMIT = "The transaction timeout is larger than the maximum value allowed by the broker (as configured by {})."
TOO_LONG: Thrown = (f"{KAFKA}.InvalidTxnTimeoutException", LIMIT.format("transaction.max.timeout.ms"), "")
WRAPPED: Thrown = ("java.io.IOException", "Failed to send data to Kafka: out-0@-1 with FlinkKafkaInternalProducer", "")
TM = "tm-1:6122-aaaaaa"


class Sink(Story):
    """A job with an exactly-once sink, which runs from the beginning."""

    def not_committed(self, how: str, at: int, **more: str) -> "Sink":
        """The committer of a TaskManager writes that it could not commit a transaction."""
        return self.by("tm-1").line(f"transaction_{how}", at, **more).by("jm")

    def producer(self, at: int, timeout: int, *, transactional: bool = True) -> "Sink":
        """A TaskManager prints the settings of a producer."""
        self.by("tm-1").line("transaction_timeout_set", at, timeout=str(timeout))
        if transactional:
            self.line("producer_transactional", at)
        return self.by("jm")

    def loop(self, count: int, every: int) -> "Sink":
        """So many restarts, and in between each a completed checkpoint."""
        for n in range(count):
            at = MINUTE + n * every
            self.restart(WRAPPED, OLD_EPOCH, at=at)
            self.triggered(n + 1, at + 10 * SECOND).completed(n + 1, at + 12 * SECOND)
        return self


def sink(*more: str) -> Sink:
    return Sink("transaction_timeout", *more).runs(0)


def last(history: Story, until: int = 8 * MINUTE) -> Transition:
    return history.transitions(until)[-1]


def only(history: Story) -> Finding:
    (finding,) = last(history).findings
    return finding


def test_other_failures_of_a_sink_are_not_this() -> None:
    history = sink().restart(USER, at=MINUTE)
    history.restart(WRAPPED, (f"{KAFKA}.TimeoutException", "Expiring 3 record(s) for out-0", ""), at=2 * MINUTE)
    history.restart((f"{KAFKA}.TimeoutException", "Timeout expired while awaiting InitProducerId", ""), at=3 * MINUTE)
    assert history.opened(HOUR) == []


def test_settings_of_producers_are_not_this() -> None:
    assert sink().producer(MINUTE, 60_000).triggered(1, 2 * MINUTE).completed(1, 3 * MINUTE).opened(HOUR) == []


def test_a_fenced_transaction_in_a_recovery_is_expected_by_connector_4() -> None:
    history = sink().triggered(1, 0).completed(1, SECOND).restart(USER, at=HOUR)
    history.not_committed("perhaps_fenced", HOUR + 4 * MINUTE).by("tm-1").stack(FENCED, at=HOUR + 4 * MINUTE)
    assert history.opened(2 * HOUR) == []


def test_without_the_jobmanagers_log_it_is_not_known_whether_it_was_a_recovery() -> None:
    assert Sink("transaction_timeout").not_committed("perhaps_fenced", HOUR).opened(2 * HOUR) == []


def test_a_stack_trace_without_a_failing_task_is_not_this() -> None:
    assert sink().by("tm-1").stack(FENCED, at=MINUTE).opened(HOUR) == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (OLD_EPOCH, "InvalidProducerEpochException: Producer attempted to produce with an old epoch"),
        (FENCED, "ProducerFencedException: There is a newer producer"),
        (PID, "InvalidPidMappingException: "),
        (TOO_LONG, "transaction.timeout.ms is larger than transaction.max.timeout.ms of the brokers"),
    ],
    ids=lambda one: one[0][-24:] if isinstance(one, tuple) else "",
)
def test_a_task_that_fails_by_it_is_a_warning_with_the_reason(fault: Thrown, words: str) -> None:
    finding = only(sink().restart(WRAPPED, fault, at=MINUTE))
    assert (finding.subject, finding.severity) == (JOB, "warning")
    assert finding.summary.startswith(f"Kafka transactions of job orders fail: {words}")


def test_the_logs_of_the_taskmanager_and_of_the_jobmanager_are_one_sign() -> None:
    history = sink().by("tm-1").task_failed(WRAPPED, OLD_EPOCH, at=MINUTE).by("jm")
    assert "times" not in only(history.task_failed(WRAPPED, OLD_EPOCH, at=MINUTE + 200)).summary


def test_checkpoints_between_the_restarts_do_not_resolve_it_and_the_third_sign_is_critical() -> None:
    history = sink("restart_loop").loop(6, every=4 * MINUTE)
    transitions = history.transitions(25 * MINUTE)
    assert [t.transition for t in transitions if t.transition != "updated"] == ["opened"]
    assert (transitions[-1].cause, transitions[-1].severity) == ("transaction_timeout", "critical")
    assert transitions[0].severity == "warning"
    assert {f.kind for f in transitions[-1].findings} == {"transaction_timeout", "restart_loop"}


def test_it_ends_with_a_checkpoint_twice_as_long_after_the_last_sign_as_they_were_apart() -> None:
    history = sink().loop(3, every=4 * MINUTE)
    history.completed(8, 9 * MINUTE + 7 * MINUTE + 50 * SECOND)
    assert last(history, 30 * MINUTE).transition != "resolved"
    history.completed(9, 9 * MINUTE + 8 * MINUTE + 10 * SECOND)
    assert last(history, 30 * MINUTE).transition == "resolved"


def test_timeout_and_checkpoint_interval_are_named_where_the_logs_have_shown_them() -> None:
    history = sink().producer(10, 60_000).producer(20, 900_000, transactional=False)
    history.triggered(1, 0).completed(1, 1).triggered(2, 90 * SECOND)
    assert only(history.restart(OLD_EPOCH, at=2 * MINUTE)).summary.endswith(
        "old epoch; transaction.timeout.ms is 60 s, a checkpoint is triggered every 90 s"
    )


def test_a_commit_that_is_fenced_is_critical_and_shows_the_timeout() -> None:
    finding = only(sink().not_committed("fenced", MINUTE, timeout="900000"))
    assert (finding.subject, finding.severity) == (JOB, "critical")
    assert finding.summary.endswith("before its commit; transaction.timeout.ms is 15 min")


def test_a_fenced_commit_long_after_the_last_recovery_is_no_recovery() -> None:
    history = sink().triggered(1, 0).runs(SECOND).not_committed("perhaps_fenced", 6 * MINUTE)
    assert only(history).severity == "critical"


def test_of_several_jobs_a_commit_names_only_the_process() -> None:
    history = sink().runs(1, job=OTHER, name="payments").by("tm-1").line("tm_started", 2, tm=TM)
    finding = only(history.not_committed("aborted", MINUTE))
    assert (finding.subject, finding.entity["job_id"], finding.entity["tm_id"]) == (TM, "", TM)


def test_a_lost_taskmanager_or_a_late_checkpoint_is_its_cause() -> None:
    history = sink("taskmanager_lost").line("tm_unreachable", MINUTE, tm=TM)
    history.restart(FENCED, at=2 * MINUTE)
    assert last(history).cause == "taskmanager_lost"
    assert {f.kind for f in last(history).findings} == {"taskmanager_lost", "transaction_timeout"}


def test_the_loss_of_records_is_its_effect() -> None:
    history = sink("sink_data_lost").not_committed("fenced", MINUTE)
    assert (last(history).cause, len({t.incident for t in history.transitions(HOUR)})) == ("transaction_timeout", 1)


def test_a_hostile_timeout_is_bounded() -> None:
    history = follow("transaction_timeout").by("tm-1").line("transaction_timeout_set", 0, timeout="9" * 18)
    history.line("producer_transactional", 0)
    for n in range(300):
        history.line("transaction_timeout_set", 1, source=f"tm-{n}", timeout="60000")
    timeouts = history.view.state.timeouts
    assert (timeouts.timeout, len(timeouts.printed)) == (24 * HOUR, 200)
