"""What the product says: findings, the incident they form, and each change of it.

All times are epoch milliseconds. The encoded form of `Transition` is the value of the
`flinkwatch.incidents` topic and one line of `flinkwatch replay --json`.
"""

from typing import Literal

import msgspec

from detectors.values.decoding import carried, moment

Severity = Literal["info", "warning", "critical"]
Confidence = Literal["learning", "fair", "sure"]
Change = Literal["opened", "updated", "resolved", "stale"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class Evidence(msgspec.Struct, frozen=True):
    """One record that proves a finding, addressed so that it can be read again.

    `time` is the event time of the line or sample; `text` its message, at most 500 characters.
    """

    topic: str
    partition: int
    offset: int
    time: int
    text: str


class Forecast(msgspec.Struct, frozen=True):
    """What happens next: `what` is expected at `at`, between `earliest` and `latest`."""

    what: str
    at: int
    earliest: int
    latest: int


class Series(msgspec.Struct, frozen=True):
    """The numbers behind a finding, for a chart: at most 64 points of (time, value), and the line fitted to them.

    `failed` are attempts that never succeeded, with what they had reached by then: expired checkpoints at their age.
    """

    name: str
    unit: str
    points: list[tuple[int, float]]
    threshold: float | None = None
    fit: list[tuple[int, float]] = []
    failed: list[tuple[int, float]] = []


class Finding(msgspec.Struct, kw_only=True):
    """What one detector says of one entity.

    `entity` names it by the fixed words cluster, job_id, job_name, task, tm_id, host, checkpoint.
    `since` is the event time of the first symptom, `at` the clock when it was decided. `subject` is the stable id of
    the entity: kind and subject together say that two findings are the same one, changed.
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
    """Which time an incident of this kind has come on the same job: `count` of them since `first` (clock, ms).

    `period` is the median gap between them, ms; `steady` when all gaps are near it: a leak's or a schedule's mark.
    """

    count: int
    first: int
    period: int
    steady: bool


class KnownIssue(msgspec.Struct, frozen=True):
    """An entry of conf/known_issues.yaml that matches; `applies` says what the version tells of it."""

    id: str
    title: str
    fixed_in: str
    workaround: str
    link: str
    applies: str


class Silenced(msgspec.Struct, frozen=True):
    """Under which silence an incident is: its id, its end (epoch ms), who made it, and why."""

    id: str
    until: int
    author: str
    comment: str


class Transition(msgspec.Struct, kw_only=True):
    """One change of an incident, numbered from 1: the incident as it stands after the change.

    `cause` is the kind of the leading finding, `summary` and `confidence` are its own; `series` is the cause's or that
    of the first finding that has one. `opened_at` and `ended_at` are clock times. `reason` says what changed. `config`
    is the hash of the configuration in force, `silence` the silence under which nobody is told, `silenced_before` the
    last one it was under when there is none now. `part_of`: this incident has turned out to be part of that one and
    ends here; `merged` are those that ended so in this one. `more` counts findings beyond those that are listed.
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


class Reading(msgspec.Struct, kw_only=True):
    """A number a detector works with; the value of one key of the `flinkwatch.readings` topic.

    `name` is the Prometheus name without the `flinkwatch_` prefix, in base units; `at` is when it was measured: five
    minutes later the series ends. `labels` always hold
    `cluster`, except for the counters of the job itself (type `counter`, label `bucket`, summed over it).
    The key is `key()`; a tombstone under it removes the series.
    """

    name: str
    labels: dict[str, str]
    value: float
    at: int
    type: Literal["gauge", "counter"] = "gauge"

    def key(self) -> str:
        """The record key: name and sorted labels."""
        return self.name + "".join(f"|{k}={v}" for k, v in sorted(self.labels.items()))


_decode = msgspec.json.Decoder(Transition).decode


def _transition(value: bytes) -> Transition:
    found = _decode(value)
    for time in (found.at, found.opened_at, found.ended_at or 0):
        moment(time)
    return found


decode_transition = carried(_transition)
"""A record of `flinkwatch.incidents`; raises UndecodableError alone."""

decode_reading = carried(msgspec.json.Decoder(Reading).decode)
"""A record of `flinkwatch.readings`; raises UndecodableError alone."""
