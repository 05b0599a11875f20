"""A sink has lost records, or cannot write some of them.

Opens as critical when a Kafka sink cannot commit the transaction of a completed checkpoint: `encountered error and data
has been potentially lost`, `its producer is already fenced`, `it's in an invalid state`. Opens as a warning when a
subtask's counter of records that the sink could not write (`numRecordsOutErrors`, `numRecordsSendErrors`) rises in at
least `min_rises` samples over `min_duration`, by `min_errors` in all and each time by `min_share` of what was sent.
Resolved when a checkpoint completes `recovered_after` the last sign, when a job without checkpoints has been RUNNING
for `running_for` without another one, or when the job ends.

Not reported: a fenced transaction in a recovery that connector 4 expects; single errors; the few that a sink with
batches tries again under load (the share), also with a burst among them; counters that begin again after a restart.

Why it matters: records of a lost transaction are in no topic, although the checkpoint that holds them has completed: no
restart brings them back. Rising errors mean that a sink drops records or repeats them, often long before the job fails.
`transaction_timeout` may be the cause.

Reference: the Kafka connector's KafkaCommitter; Flink, "Metrics", operators.
"""

from typing import TypeAlias

import msgspec

from detectors.detector import View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.facts import Failure
from detectors.flink.sink_errors import ERRORS, SENT, SinkErrors
from detectors.flink.transactions import loses_records
from detectors.patterns.per_process import writer
from detectors.patterns.repeated_signs import NOWHERE, RepeatedSigns, Signs, SignsConfig, SignsState, job_of
from detectors.values.durations import Duration
from detectors.values.texts import cut

_MAX_TEXT = 160
_TEXTS = {
    "fenced": "Kafka had fenced the producer of a transaction before its commit",
    "perhaps_fenced": "Kafka had fenced the producer of a transaction before its commit",
    "aborted": "Kafka had aborted a transaction before its commit",
    "failed": "a transaction could not be committed",
}

_View: TypeAlias = "View[SinkDataLost.Config, SinkDataLost.State]"


class SinkDataLost(RepeatedSigns):
    """Detects sinks that lose records or cannot write them."""

    kind = "sink_data_lost"

    class Config(SignsConfig):
        """Settings of the detector `sink_data_lost`."""

        recovered_after: Duration = threshold(
            300_000,
            "Time after the last sign from which a completed checkpoint of the job resolves the finding. If the signs "
            "are further apart, twice their longest gap.",
        )
        min_rises: int = threshold(3, "Number of samples in which a counter of errors must have risen.", ge=2)
        min_duration: Duration = threshold(
            60_000, "Minimum time between the first and the last of these rises. One burst of errors is shorter."
        )
        min_errors: int = threshold(10, "Minimum number of errors in these rises.", ge=1)
        min_share: float = threshold(
            0.01,
            "Minimum share of errors in the records sent during these rises. Sinks that write batches try records "
            "again when the external system limits their rate.",
            ge=0,
            le=1,
        )

    class State(SignsState):
        """Findings, and the sinks' counters of errors."""

        errors: SinkErrors = msgspec.field(default_factory=SinkErrors)

    advice = (
        "Look at the sink's exceptions in the TaskManager's log. For a lost transaction: note its time, and compare "
        "what the external system has with the input between the two checkpoints; only a replay from a savepoint or "
        "an offset before that time brings the records back. For rising errors: see what the external system rejects "
        "(size, schema, permission, rate limit). To prevent it: a transaction.timeout.ms far above the longest outage, "
        "an alert on errors of the sink, and a side output for rejected records."
    )

    @on(facts.TransactionNotCommitted)
    def not_committed(self, view: _View, fact: facts.TransactionNotCommitted) -> None:
        job = job_of(view)
        if loses_records(fact, view.topology.checkpoints.get(job), view.time):
            self._lost(view, job, _TEXTS[fact.how])

    @on(Failure, needs="open")
    def explained(self, view: _View, fact: Failure) -> None:
        """Take in why a commit failed."""
        job = job_of(view)
        if fact.of == "transaction_failed" and not fact.again:
            self._lost(view, job, f"{_TEXTS['failed']}: {fact.name.rpartition('.')[2]}: {cut(fact.message, _MAX_TEXT)}")

    @on(*ERRORS, SENT)
    def measured(self, view: _View, samples: list[Sample]) -> None:
        rising: dict[str, tuple[str, int]] = {}
        for sample in samples:
            config: SinkDataLost.Config = self.config_of(sample.labels.get("job_id", ""))
            counter = view.state.errors.take(sample, view.time, config.min_share)
            least = config.min_rises, config.min_duration, config.min_errors, config.min_share
            if counter is not None and counter.lasts(*least):
                operator = sample.labels.get("operator_name", "") or "a sink"
                rising[sample.labels["job_id"]] = operator, counter.rises.since
        for job, (operator, since) in rising.items():
            known = view.state.open.get(job)
            # Lost records are worse, and errors that follow are no further loss.
            if known is None or known.severity == "warning":
                errors = view.state.errors.total(job)
                self.sign(view, job, f"{operator} could not write {errors:,} records", "warning", since=since)

    def _lost(self, view: _View, job: str, text: str) -> None:
        self.sign(view, job, text, "critical", NOWHERE if job else writer(view))

    def summary(self, _: _View, signs: Signs, job: str, often: str) -> str:
        if signs.severity == "critical":
            return f"a sink of {job} may have lost records: {signs.text}{often}"
        return f"{job} loses or repeats records: {signs.text}"
