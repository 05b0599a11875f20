"""Metrics about incidents that are not resolved. Few per incident, because there may be ten thousand."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from sys import intern
from typing import NamedTuple, Self

from prometheus_client.core import Metric

from detectors.incident import SEVERITIES, Transition
from sinks.contract.feedback import Mark
from sinks.prometheus.catalogue import scraped

_TIMES = (
    "incident_since_timestamp_seconds",
    "incident_forecast_timestamp_seconds",
    "incident_forecast_earliest_timestamp_seconds",
    "incident_forecast_latest_timestamp_seconds",
)


class OpenIncident(NamedTuple):
    """`labels` are kind, severity, cluster and job, `times` (epoch ms) those of _TIMES, the last three only with a
    forecast. `rank` is 1 for info to 3 for critical, 0 while silenced. `place`: partition and offset of its record.
    """

    labels: tuple[str, str, str, str]
    times: tuple[int, ...]
    rank: int
    place: tuple[int, int] | None = None

    @classmethod
    def of(cls, one: Transition, place: tuple[int, int] | None = None) -> Self:
        """The parts of a transition that are shown. Equal labels share memory."""
        labels = (intern(one.cause), intern(one.severity), intern(one.cluster), intern(one.job_name))
        since = min((finding.since for finding in one.findings), default=one.opened_at or one.at)
        ahead = one.forecast
        times = (since,) if ahead is None else (since, ahead.at, ahead.earliest, ahead.latest)
        return cls(labels, times, 0 if one.silence is not None else 1 + SEVERITIES.index(one.severity), place)


def active_metrics(incidents: Collection[OpenIncident]) -> Iterator[Metric]:
    """Counts by kind, severity, cluster and job, and the earliest times of incidents with the same labels."""
    active = Counter(one.labels for one in incidents)
    silenced = Counter(one.labels for one in incidents if not one.rank)
    yield scraped("incident_active", active.items())
    yield scraped("incident_silenced", ((labels, silenced[labels]) for labels in active))
    for number, name in enumerate(_TIMES):
        earliest: dict[tuple[str, ...], int] = {}
        for one in incidents:
            for at in one.times[number : number + 1]:
                earliest[one.labels] = min(at, earliest.get(one.labels, at))
        yield scraped(name, ((labels, at / 1000) for labels, at in earliest.items()))


def acknowledged_metric(incidents: Mapping[str, OpenIncident], acknowledged: Mapping[str, Mark]) -> Metric:
    """When open incidents were acknowledged, and by whom."""
    found = ((name, mark) for name, mark in acknowledged.items() if name in incidents)
    series = [((name, incidents[name].labels[2], mark.by), mark.at / 1000) for name, mark in found]
    return scraped("incident_acknowledged_timestamp_seconds", series)


def open_metrics(incidents: Mapping[str, OpenIncident]) -> Iterator[Metric]:
    """Two series per incident: one with fixed labels, and one with the labels that may change."""
    yield scraped("incident_open", (((name, one.labels[2]), one.rank) for name, one in incidents.items()))
    yield scraped("incident_info", (((name, *one.labels), 1) for name, one in incidents.items()))
