"""Metrics of prometheus_client, made as the table describes them."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import InfoMetricFamily, Metric

from sinks.prometheus.catalogue import BY_NAME, NAMESPACE

# Prometheus 2 keeps them as a gauge more for each counter, and nobody asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]

_Lasting = TypeVar("_Lasting", Counter, Gauge, Histogram)


def lasting(kind: type[_Lasting], name: str, **options: Any) -> _Lasting:
    """A counter, gauge or histogram that keeps its values from scrape to scrape; registered nowhere."""
    one = BY_NAME[name]
    return kind(NAMESPACE + name.removesuffix("_total"), one.help, one.labels, registry=None, **options)


class MetricFamily:
    """The samples of one gauge, counter or info, built for one scrape."""

    def __init__(self, name: str) -> None:
        one = BY_NAME[name]
        self._labels = one.labels
        self._sample = NAMESPACE + name
        family = self._sample.removesuffix("_total").removesuffix("_info")
        self.metric = Metric(family, one.help, one.type)

    def add(self, values: Sequence[str], value: float) -> None:
        """One series: the values of its labels, in the table's order."""
        self.metric.add_sample(self._sample, dict(zip(self._labels, values, strict=True)), value)


def info(name: str, value: str) -> Metric:
    """A series of 1 whose only label says something."""
    one = BY_NAME[name]
    return InfoMetricFamily(NAMESPACE + name.removesuffix("_info"), one.help, value={one.labels[0]: value})


def build_info() -> Metric:
    """The version that runs."""
    try:
        return info("build_info", version("flinkwatch"))
    except PackageNotFoundError:
        return info("build_info", "unknown")
