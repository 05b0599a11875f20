"""Metrics about incidents that are not resolved. Few per incident, because there may be ten thousand."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from sys import intern
from typing import NamedTuple, Self

from prometheus_client.core import Metric

from detectors.incident import SEVERITIES, Transition
from sinks.prometheus.families import MetricFamily


class OpenIncident(NamedTuple):
    """One incident; times are in epoch ms, `forecast` is (expected, earliest, latest)."""

    labels: tuple[str, str, str, str]
    since: int
    forecast: tuple[int, int, int] | None
    silenced: bool

    @classmethod
    def of(cls, one: Transition) -> Self:
        """The parts of a transition that are shown. Equal labels share memory."""
        labels = (intern(one.cause), intern(one.severity), intern(one.cluster), intern(one.job_name))
        since = min((finding.since for finding in one.findings), default=one.opened_at or one.at)
        ahead = one.forecast
        forecast = (ahead.at, ahead.earliest, ahead.latest) if ahead is not None else None
        return cls(labels, since, forecast, one.silence is not None)


_FORECASTS: tuple[tuple[str, Callable[[OpenIncident], int | None]], ...] = (
    ("incident_since_timestamp_seconds", lambda one: one.since),
    ("incident_forecast_timestamp_seconds", lambda one: one.forecast[0] if one.forecast else None),
    ("incident_forecast_earliest_timestamp_seconds", lambda one: one.forecast[1] if one.forecast else None),
    ("incident_forecast_latest_timestamp_seconds", lambda one: one.forecast[2] if one.forecast else None),
)


_RANK: dict[str, int] = {severity: rank for rank, severity in enumerate(SEVERITIES, 1)}


def active_metrics(incidents: Iterable[OpenIncident]) -> Iterator[Metric]:
    """Counts by kind, severity, cluster and job, and the earliest times of incidents with the same labels."""
    incidents = list(incidents)
    active, silenced = MetricFamily("incident_active"), MetricFamily("incident_silenced")
    silenced_count = Counter(one.labels for one in incidents if one.silenced)
    for labels, count in Counter(one.labels for one in incidents).items():
        active.add(labels, count)
        silenced.add(labels, silenced_count[labels])
    yield from (active.metric, silenced.metric)
    for name, time_of in _FORECASTS:
        earliest: dict[tuple[str, ...], int] = {}
        for one in incidents:
            at = time_of(one)
            if at is not None:
                earliest[one.labels] = min(at, earliest.get(one.labels, at))
        times = MetricFamily(name)
        for series, first in earliest.items():
            times.add(series, first / 1000)
        yield times.metric


def open_metrics(incidents: Mapping[str, OpenIncident]) -> Iterator[Metric]:
    """Two series per incident: one with fixed labels, and one with the labels that may change."""
    opened, about = MetricFamily("incident_open"), MetricFamily("incident_info")
    for incident, one in incidents.items():
        kind, severity, cluster, job = one.labels
        opened.add((incident, cluster), 0 if one.silenced else _RANK[severity])
        about.add((incident, kind, severity, cluster, job), 1)
    yield from (opened.metric, about.metric)
