"""A sink's Kafka transactions time out or are fenced before a checkpoint commits them.

Opens as a warning when a task, a job or a checkpoint fails with `InvalidProducerEpochException`,
`ProducerFencedException`, `InvalidPidMappingException`, a transaction timeout, or because the broker allows no timeout
as long as the sink's. Critical from the third sign, or when a completed checkpoint's transaction cannot be committed.
Resolved when a checkpoint completes `recovered_after` the last sign or twice as long as the signs were apart: in
between the job restarts and completes checkpoints. Also resolved when the job finishes or is cancelled.

Not reported: a fenced transaction in a recovery, which connector 4 expects if transactional ids are used again; the
same exceptions in a log without a failing task.

Why it matters: Kafka aborts a transaction that is open for longer than `transaction.timeout.ms`. The job restarts and
writes the records again, and fails again unless checkpoints complete in time. A transaction that times out between a
checkpoint and its commit, as in a long recovery, loses its records (`sink_data_lost`). The summary has the timeout and
the checkpoint interval, once the logs have shown them.

Reference: Flink, "Kafka connector", fault tolerance; FLINK-30068, FLINK-37460; a recording with kafka-clients 3.4.
"""

import re
from typing import TypeAlias

import msgspec

from detectors.detector import View, on, threshold
from detectors.flink import facts
from detectors.flink.facts import Failure
from detectors.flink.transactions import ProducerTimeouts, loses_records
from detectors.incident import Severity
from detectors.patterns.keep_state import keep_state
from detectors.patterns.per_process import writer
from detectors.patterns.repeated_signs import NOWHERE, RepeatedSigns, Signs, SignsConfig, SignsState, job_of
from detectors.values.durations import Duration, humanize
from detectors.values.texts import cut

_FENCED = re.compile(r"InvalidProducerEpoch|ProducerFenced|InvalidPidMapping|TransactionTimeout|InvalidTxnTimeout")
_TOO_LONG = "transaction timeout is larger than the maximum value allowed by the broker"
_MANY = 3
_MAX_TEXT = 160

_View: TypeAlias = "View[TransactionTimeout.Config, TransactionTimeout.State]"


class TransactionTimeout(RepeatedSigns):
    """Detects transactions that end before they are committed."""

    kind = "transaction_timeout"

    class Config(SignsConfig):
        """Settings of the detector `transaction_timeout`."""

        recovered_after: Duration = threshold(
            300_000,
            "Time after the last sign from which a completed checkpoint of the job resolves the finding. If the signs "
            "are further apart, twice their longest gap.",
        )

    class State(SignsState):
        """Jobs whose transactions time out, and the timeout of the cluster's producers."""

        timeouts: ProducerTimeouts = msgspec.field(default_factory=ProducerTimeouts)

    advice = keep_state() + (
        "Find out what takes longer than the transaction's timeout: a slow or overdue checkpoint, a long recovery, an "
        "outage of the brokers. Raise transaction.timeout.ms of the sink above the checkpoint interval plus the "
        "longest checkpoint and recovery (and transaction.max.timeout.ms of the brokers, which limits it), then "
        "restart the job from its last completed checkpoint. If the producer was fenced without a timeout, look for a "
        "second job with the same transactional id prefix."
    )

    @on(Failure)
    def failed(self, view: _View, fact: Failure) -> None:
        text, job = _why(fact), job_of(view)
        if text and fact.of and not fact.of.startswith("transaction_") and not fact.again and job:
            self.sign(view, job, text, "warning")

    @on(facts.TransactionNotCommitted)
    def not_committed(self, view: _View, fact: facts.TransactionNotCommitted) -> None:
        view.state.timeouts.learn(view.event.source, fact)
        job = job_of(view)
        fenced = fact.how in ("fenced", "perhaps_fenced", "aborted")
        if fenced and loses_records(fact, view.topology.checkpoints.get(job), view.time):
            text = "Kafka had fenced or aborted a transaction before its commit"
            self.sign(view, job, text, "critical", NOWHERE if job else writer(view))

    @on(facts.TransactionTimeoutSet, facts.ProducerTransactional)
    def configured(self, view: _View, fact: facts.TransactionTimeoutSet | facts.ProducerTransactional) -> None:
        view.state.timeouts.learn(view.event.source, fact)

    def severity(self, signs: Signs) -> Severity:
        return "critical" if signs.count >= _MANY else signs.severity

    def summary(self, view: _View, signs: Signs, job: str, often: str) -> str:
        timeout = view.state.timeouts.timeout
        known = view.topology.checkpoints.get(signs.job)
        settings = [
            f"transaction.timeout.ms is {humanize(timeout)}" if timeout else "",
            f"a checkpoint is triggered every {humanize(known.interval)}" if known and known.interval else "",
        ]
        shown = ", ".join(part for part in settings if part)
        return f"Kafka transactions of {job} fail{often}: {signs.text}" + (f"; {shown}" if shown else "")


def _why(fact: Failure) -> str:
    """Why a transaction failed; empty if the failure is another one."""
    if _TOO_LONG in fact.message:
        return "transaction.timeout.ms is larger than transaction.max.timeout.ms of the brokers"
    if _FENCED.search(fact.name) is None:
        return ""
    return cut(f"{fact.name.rpartition('.')[2]}: {fact.message}".rstrip(": ."), _MAX_TEXT)
