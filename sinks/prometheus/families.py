"""Creates prometheus_client's metrics from the descriptions in `catalogue`."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import InfoMetricFamily, Metric

from sinks.prometheus.catalogue import BY_NAME, NAMESPACE

# They would be an additional gauge for each counter, and no one needs them.
disable_created_metrics()  # type: ignore[no-untyped-call]

_Lasting = TypeVar("_Lasting", Counter, Gauge, Histogram)


def lasting(kind: type[_Lasting], name: str, **options: Any) -> _Lasting:
    """A counter, gauge or histogram that keeps its values between scrapes; it is not registered."""
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
        """Add a series; `values` are its label values in the order of `catalogue`."""
        self.metric.add_sample(self._sample, dict(zip(self._labels, values, strict=True)), value)


def info(name: str, value: str) -> Metric:
    """An info metric with one label."""
    one = BY_NAME[name]
    return InfoMetricFamily(NAMESPACE + name.removesuffix("_info"), one.help, value={one.labels[0]: value})


def build_info() -> Metric:
    """The running version."""
    try:
        return info("build_info", version("flinkwatch"))
    except PackageNotFoundError:
        return info("build_info", "unknown")
