"""The documents of the JSON API, from which the pages are rendered too. All times are epoch milliseconds.

`problem` is set while a document may be outdated or incomplete, with the reason. `next` is the path of the next part of
a list, null at its end. Fields may be added in this version of the API; none is removed or changes its meaning.
"""

from typing import Any, Literal

import msgspec

from detectors.incident import KnownIssue, Severity, Transition
from detectors.settings.live import Origin
from sinks.contract.feedback import Marks
from sinks.web.page_context import ThresholdInForce

State = Literal["open", "stale", "resolved"]
Measure = Literal["value", "age", "time_left"]
SentState = Literal["intent", "sent", "unknown", "folded", "undelivered"]


class IncidentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An incident after its newest change, number `seq`. `kind` is that of its cause; `since` is its first symptom.

    If `part_of` is set, it was merged into that incident. `silenced` until that time (0: it is not).
    """

    incident: str
    cluster: str
    job: str
    kind: str
    severity: Severity
    state: State
    summary: str
    since: int
    opened_at: int
    changed_at: int
    ended_at: int | None
    seq: int
    silenced: int
    part_of: str


class ClusterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, and its open incidents by severity. `silenced` are counted apart from the three."""

    cluster: str
    critical: int = 0
    warning: int = 0
    info: int = 0
    silenced: int = 0


class OpenIncidents(msgspec.Struct, frozen=True, kw_only=True):
    """The open incidents that match the query, by cluster and severity: the cluster with the worst incident first."""

    problem: str | None
    total: int
    clusters: list[ClusterSummary]
    incidents: list[IncidentSummary]
    next: str | None


class LoggedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver's notification log has of an incident: the change `seq`, written `at`.

    `intent`: about to be sent; `sent`: accepted; `unknown`: sent without a clear answer; `folded`: reported in a
    digest; `undelivered`: given up for now, for `reason`.
    """

    receiver: str
    incident: str
    seq: int
    state: SentState
    at: int
    reason: str


class IncidentDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An incident with its transitions, newest first. `complete`: all from its first to its newest one are kept.

    `marks` are what people have answered to its message, `earlier` are former incidents with the same cause on the same
    job and cluster, newest first. `thresholds` are the settings of the detectors that found something, empty if the
    configuration has changed since the newest transition.
    """

    problem: str | None
    incident: IncidentSummary
    complete: bool
    total: int
    transitions: list[Transition]
    notifications: list[LoggedNotification]
    marks: Marks
    earlier: list[IncidentSummary]
    thresholds: list[ThresholdInForce]
    next: str | None


class Count(msgspec.Struct, frozen=True):
    """How many incidents have the name."""

    name: str
    count: int


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The incidents that match the query and were open at some time since `since`, newest first.

    The counts are of all of them; at most 100 names are in each.
    """

    problem: str | None
    since: int
    total: int
    kinds: list[Count]
    clusters: list[Count]
    jobs: list[Count]
    days: list[Count]
    incidents: list[IncidentSummary]
    next: str | None


class Clusters(msgspec.Struct, frozen=True, kw_only=True):
    """All clusters with an open incident or a reading."""

    problem: str | None
    total: int
    clusters: list[ClusterSummary]
    next: str | None


class ReadingNow(msgspec.Struct, frozen=True, kw_only=True):
    """A reading, in the base unit of its name, measured `at`, and what its detector compares with the limit. Numbers
    that JSON cannot express are null.

    `measure` says what that is: the value, the age of the time that it is, or the time left until then. `now` is that
    number, null if the detector compares nothing. `limit_from` is the setting or the reading that the limit is taken
    from; `overridden`: an override sets it. `exceeded`: the number is beyond the limit, which alone does not open an
    incident.
    """

    name: str
    labels: dict[str, str]
    value: float | None
    at: int
    help: str
    measure: Measure
    now: float | None
    limit: float | None
    limit_from: str
    overridden: bool
    exceeded: bool


class DetectorNow(msgspec.Struct, frozen=True, kw_only=True):
    """A detector in a cluster: its settings as written, its open incidents, and the readings behind it."""

    kind: str
    enabled: bool
    open: int
    settings: dict[str, Any]
    readings: list[ReadingNow]


class RiskNow(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of Flink that makes incidents likely: what was `seen`, and the kind of incident that it leads to."""

    rule: str
    seen: str
    why: str
    to_do: str
    runbook: str


class ClusterDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster now. `config` is the hash of the configuration in force; `total` counts its readings.

    `risks` and `known_issues` may lead to incidents although nothing has happened; `unknown` says what could not be
    judged. `version` is that of Flink, empty if unknown.
    """

    problem: str | None
    cluster: str
    config: str
    incidents: list[IncidentSummary]
    total: int
    detectors: list[DetectorNow]
    next: str | None
    version: str
    risks: list[RiskNow]
    known_issues: list[KnownIssue]
    unknown: list[str]


class ConfigurationChange(msgspec.Struct, frozen=True):
    """A configuration that was published, and how: from the file, or by a command."""

    hash: str
    at: int
    by: str
    origin: Origin


class SilenceNow(msgspec.Struct, frozen=True, kw_only=True):
    """A silence that has not ended yet; `begins` 0: at once."""

    id: str
    begins: int
    until: int
    author: str
    comment: str
    matches: dict[str, str]


class WindowNow(msgspec.Struct, frozen=True, kw_only=True):
    """A maintenance window as written, and its present or next period. `in_force`: it silences incidents now."""

    begins: int
    until: int
    in_force: bool
    hours: str
    comment: str
    matches: dict[str, str]


class Setting(msgspec.Struct, frozen=True):
    """A setting of the section `detectors`, as written, and its default."""

    name: str
    value: Any
    default: Any


class ConfigurationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration in force since `at`. `changed` has the settings that differ from their defaults; `detectors`
    has all. `changes` are the last published configurations, newest first.
    """

    problem: str | None
    hash: str
    at: int
    by: str
    origin: Origin
    changed: list[Setting]
    detectors: dict[str, Any]
    overrides: list[dict[str, Any]]
    silences: list[SilenceNow]
    maintenance: list[WindowNow]
    changes: list[ConfigurationChange]


class ReceiverHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver in this process since its start. `waiting` notifications wait, the oldest since `oldest_waiting`.

    `states` counts what its notification log has by state, and `last_sent` is when it was last notified; both are of
    all processes.
    """

    receiver: str
    attempts: int
    failures: dict[str, int]
    suppressed: dict[str, int]
    waiting: int
    oldest_waiting: int | None
    undelivered: int
    states: dict[str, int]
    last_sent: int | None


class Check(msgspec.Struct, frozen=True):
    """A check of /-/ready; `problem` null: it passes."""

    name: str
    problem: str | None


class Receivers(msgspec.Struct, frozen=True, kw_only=True):
    """Delivery health, and the checks of this process."""

    problem: str | None
    receivers: list[ReceiverHealth]
    checks: list[Check]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error, as RFC 9457 defines it (application/problem+json). `allowed` lists what the query may have."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    allowed: list[str] = []


Document = OpenIncidents | IncidentDocument | History | Clusters | ClusterDocument | ConfigurationDocument | Receivers
ALL: tuple[type[msgspec.Struct], ...] = (
    OpenIncidents,
    IncidentDocument,
    History,
    Clusters,
    ClusterDocument,
    ConfigurationDocument,
    Receivers,
    Problem,
)
