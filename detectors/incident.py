"""The output of the product: findings, the incidents that they form, and each change of an incident.

All times are epoch milliseconds. A record of `flinkwatch.incidents` and a line of `flinkwatch replay --json` is an
encoded `Transition`.
"""

from typing import Literal

import msgspec

from detectors.events.event import LogEvent
from detectors.values.decoding import carried, moment
from detectors.values.stored_format import StoredFormat

Severity = Literal["info", "warning", "critical"]
Confidence = Literal["learning", "fair", "sure"]
Change = Literal["opened", "updated", "resolved", "stale"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class Evidence(msgspec.Struct, frozen=True):
    """A record that proves a finding, with the address under which it can be read again.

    `time` is the event time of the line or sample; `text` its message, at most 500 characters.
    """

    topic: str
    partition: int
    offset: int
    time: int
    text: str


def evidence(event: LogEvent, time: int) -> Evidence:
    """The record of a line as evidence."""
    return Evidence(event.topic, event.partition, event.offset, time, event.text)


class Forecast(msgspec.Struct, frozen=True):
    """What is expected to happen next: `what` at time `at`, between `earliest` and `latest`."""

    what: str
    at: int
    earliest: int
    latest: int


class Series(msgspec.Struct, frozen=True):
    """The numbers behind a finding, for a chart: at most 64 points (time, value), and the line fitted to them.

    `failed` are attempts that did not succeed, such as expired checkpoints with their age.
    """

    name: str
    unit: str
    points: list[tuple[int, float]]
    threshold: float | None = None
    fit: list[tuple[int, float]] = []
    failed: list[tuple[int, float]] = []


class Finding(msgspec.Struct, kw_only=True):
    """What one detector found about one entity.

    `entity` identifies it with the keys cluster, job_id, job_name, task, tm_id, host, checkpoint, broker, service,
    storage. `since` is the event
    time of the first symptom, `at` the clock at the decision. `subject` is the stable ID of the entity: two findings
    with the same kind and subject are two versions of one finding.
    """

    kind: str
    subject: str
    entity: dict[str, str]
    since: int
    at: int
    severity: Severity
    summary: str
    confidence: Confidence = "fair"
    evidence: list[Evidence] = []
    forecast: Forecast | None = None
    series: Series | None = None
    advice: str = ""
    closed_at: int | None = None
    closed_because: str = ""


class Recurrence(msgspec.Struct, frozen=True):
    """Occurrences of incidents of this kind on the same job: `count` of them since `first` (clock, ms).

    `period` is the median gap in ms. `steady`: all gaps are near it, which points to a leak or to a schedule.
    """

    count: int
    first: int
    period: int
    steady: bool


class KnownIssue(msgspec.Struct, frozen=True):
    """A matching entry of conf/known_issues.yaml; `applies` says whether the cluster's Flink version is affected."""

    id: str
    title: str
    fixed_in: str
    workaround: str
    link: str
    applies: str


class Silenced(msgspec.Struct, frozen=True):
    """The silence in force for an incident: its ID, its end (epoch ms), its author and the reason."""

    id: str
    until: int
    author: str
    comment: str


class RestorePoint(msgspec.Struct, frozen=True):
    """From what a job can be restored: its newest completed checkpoint, or what it was last `restored` from.

    `at` is when it completed, or when the job was restored from it (event time). `path` is empty if no line has shown
    the directory, `checkpoint` is -1 for a savepoint. `retained`: it is kept if the job is cancelled, as far as the
    configuration of the cluster shows.
    """

    at: int
    path: str
    checkpoint: int = -1
    retained: bool = False
    restored: bool = False


class LateArrival(msgspec.Struct, frozen=True):
    """Lines that came late: written between `first` and `last`, and read at `arrived`."""

    first: int
    last: int
    arrived: int


class ChangedSetting(msgspec.Struct, frozen=True):
    """A setting of Flink that has another value: its key, or `version`. `before` is empty if it was not set."""

    key: str
    before: str
    after: str


class Adjustment(msgspec.Struct, frozen=True):
    """Settings of Flink, or its version, that changed at event time `at`: during an incident or within a day after it.

    `evidence` is the first line that shows it. `effect` is what became of the incident since, in numbers; empty if
    there is nothing to compare. `judged`: enough was seen that it was reported for itself.
    """

    at: int
    changed: list[ChangedSetting]
    evidence: Evidence
    effect: str = ""
    judged: bool = False


class Transition(msgspec.Struct, kw_only=True, tag_field="version", tag=1):
    """One change of an incident, numbered from 1, with the state of the incident after the change.

    `cause` is the kind of the finding that explains the others, `summary` and `confidence` are those of that finding.
    `series` comes from the cause or from the first finding that has one. `opened_at` and `ended_at` are clock times.
    `reason` says what changed. `config` is the hash of the configuration in force. `silence` is the silence in force,
    `silenced_before` the last one if none is in force now. If `part_of` is set, this incident was merged into that one
    and ends here; `merged` are the incidents merged into this one. `more` counts the findings that are not listed.
    `late` is set if the cause was read from lines that arrived late. `restore_from` is that of the job, `adjustments`
    are the changes of Flink's settings or version since the incident began.
    """

    incident: str
    seq: int
    transition: Change
    at: int
    cluster: str
    cause: str
    severity: Severity
    summary: str
    findings: list[Finding]
    evidence: list[Evidence]
    job_id: str = ""
    job_name: str = ""
    advice: str = ""
    reason: str = ""
    forecast: Forecast | None = None
    opened_at: int = 0
    ended_at: int | None = None
    config: str = ""
    silence: Silenced | None = None
    silenced_before: Silenced | None = None
    confidence: Confidence = "fair"
    series: Series | None = None
    recurrence: Recurrence | None = None
    known_issue: KnownIssue | None = None
    part_of: str = ""
    merged: list[str] = []
    more: int = 0
    late: LateArrival | None = None
    restore_from: RestorePoint | None = None
    adjustments: list[Adjustment] = []


class Reading(msgspec.Struct, kw_only=True, tag_field="version", tag=1):
    """A number that a detector works with, and the value of one record of the `flinkwatch.readings` topic.

    `name` is the Prometheus name without the prefix `flinkwatch_`, in base units. `at` is the time of the measurement;
    the series ends five minutes later. `labels` always has `cluster`, except for counters of the job itself (type
    `counter`, label `bucket`, over which they are added up). The record key is `key()`; a tombstone ends the series.
    """

    name: str
    labels: dict[str, str]
    value: float
    at: int
    type: Literal["gauge", "counter"] = "gauge"

    def key(self) -> str:
        """The record key: name and sorted labels."""
        return self.name + "".join(f"|{k}={v}" for k, v in sorted(self.labels.items()))


TRANSITION_FORMAT = StoredFormat("the transition", Transition, msgspec.json)
READING_FORMAT = StoredFormat("the reading", Reading, msgspec.json)


@carried
def decode_transition(value: bytes) -> Transition:
    """Decodes a record of `flinkwatch.incidents`. Raises UndecodableError and nothing else."""
    found = TRANSITION_FORMAT.decode(value)
    for time in (found.at, found.opened_at, found.ended_at or 0):
        moment(time)
    return found


decode_reading = carried(READING_FORMAT.decode)
"""Decodes a record of `flinkwatch.readings`. Raises UndecodableError and nothing else."""
