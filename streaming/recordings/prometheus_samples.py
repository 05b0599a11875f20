"""Reads the samples of a Prometheus server as records, each with what one process exposed at one scrape.

They are read window by window with the times of their scrapes, so memory is bounded and no sample is interpolated.
"""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import msgspec

from detectors.events.event import Record
from detectors.events.vocabulary.metric_names import detector_name
from sinks.secret import read_header_secret
from streaming.recordings.prometheus_api import PrometheusApi, PrometheusError, ScrapedSeries, TooManySamplesError

TOPIC = "prometheus"
"""The topic of the records, which evidence names."""

_WINDOW_MS = 300_000
_LEAST_MS = 1_000
_IN_RECORD = 1_000
_NAMES = '__name__=~"flink_.+|container_.+|kube_pod_.+"'
_RENAMED = "exported_"


class _Metric(msgspec.Struct, omit_defaults=True):
    """A metric in Telegraf's JSON, one of the formats that are read from Kafka."""

    name: str
    fields: dict[str, float]
    tags: msgspec.Raw
    timestamp: int = 0


class _Batch(msgspec.Struct):
    metrics: list[_Metric]


Place = tuple[str, str]
"""Cluster and host of a series."""


class PrometheusSamples:
    """The samples of one server. `match` is a selector such as {job="flink"} that narrows them.

    The cluster of a series is `cluster`, else the value of its label `cluster_label`. Raises PrometheusError.
    """

    def __init__(self, api: PrometheusApi, *, match: str = "", cluster: str = "", cluster_label: str = "cluster"):
        self._api = api
        self._match = _inside(match)
        self._cluster = cluster
        self._cluster_label = cluster_label
        self._window = _WINDOW_MS
        self._count = 0

    @property
    def name(self) -> str:
        """The address of the server."""
        return self._api.name

    def names(self, begin: int, end: int) -> list[str]:
        """The metrics of these times that flinkwatch uses, by their names on the server. Raises PrometheusError."""
        found = self._api.names(self._selector(_NAMES), begin, end)
        return [name for name in found if detector_name(name)[0]]

    def between(self, begin: int, end: int) -> Iterator[Record]:
        """The records of scrapes later than `begin` and not later than `end` (epoch ms), in order of time.

        Raises PrometheusError.
        """
        names = self.names(begin, end)
        while names and begin < end:
            until = min(begin + self._window, end)
            try:
                found = self.series(names, begin, until)
            except TooManySamplesError:
                if self._window <= _LEAST_MS:
                    raise
                self._window //= 2
                continue
            yield from self.records(found, begin, until)
            begin = until

    def series(self, names: list[str], begin: int, end: int) -> list[ScrapedSeries]:
        """The series of these metrics with their samples. Raises PrometheusError, or TooManySamplesError."""
        return self._api.samples(self._selector(f'__name__=~"{"|".join(names)}"'), begin, end)

    def records(self, found: list[ScrapedSeries], begin: int, end: int) -> Iterator[Record]:
        """The samples as records; `begin` itself is not part of the time, `end` is."""
        pages: dict[tuple[int, Place], list[_Metric]] = {}
        for series in found:
            labels = _labels(series.metric)
            name = labels.pop("__name__", "")
            labels["cluster"] = self._cluster or labels.get(self._cluster_label, "")
            labels["host"] = _host(name, labels)
            tags, place = msgspec.Raw(msgspec.json.encode(labels)), (labels["cluster"], labels["host"])
            for seconds, value in series.values:
                time = round(seconds * 1000)
                if begin < time <= end:
                    pages.setdefault((time, place), []).append(_Metric(name, {"value": float(value)}, tags, time))
        for (time, _), metrics in sorted(pages.items(), key=lambda page: page[0]):
            for start in range(0, len(metrics), _IN_RECORD):
                self._count += 1
                page = msgspec.json.encode(_Batch(metrics[start : start + _IN_RECORD]))
                yield Record(TOPIC, 0, self._count, time, None, page)

    def _selector(self, names: str) -> str:
        return f"{{{names},{self._match}}}" if self._match else f"{{{names}}}"


def authorization(file: Path) -> str:
    """The HTTP header for a file with `user:password`, else with a bearer token. Raises SecretError."""
    secret = read_header_secret("--prometheus-auth", None, file)
    if ":" in secret:
        return f"Basic {b64encode(secret.encode()).decode()}"
    return f"Bearer {secret}"


def _inside(match: str) -> str:
    text = match.strip()
    if text and not (text.startswith("{") and text.endswith("}")):
        raise PrometheusError(f'--match {match}: not a selector of labels in braces, such as {{job="flink"}}')
    return text[1:-1].strip().strip(",")


def _host(name: str, labels: dict[str, str]) -> str:
    """The host as logs name it: the pod, or that of the address. Flink's own label has no dots and dashes left."""
    # A container's pod is not the process that measured it.
    pod = labels.get("pod", "") if name.startswith("flink_") else ""
    return pod or labels.get("instance", "").rpartition(":")[0] or labels.get("host", "")


def _labels(metric: dict[str, str]) -> dict[str, str]:
    """The labels as Flink exported them. Prometheus renames a label that the target has already to exported_…"""
    renamed = {k.removeprefix(_RENAMED): v for k, v in metric.items() if k.startswith(_RENAMED)}
    return {k: v for k, v in metric.items() if not k.startswith(_RENAMED)} | renamed
