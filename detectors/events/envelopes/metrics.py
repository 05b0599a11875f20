"""Metrics in other envelopes than a Prometheus page and Telegraf's JSON.

Read here: influx line protocol (Telegraf's, and that of Flink's own influx reporter), prometheus-kafka-adapter, Vector
and OTLP JSON. Flink's own reporters leave out `flink_`, write dots, and do not put labels into Prometheus form: that is
made good here, so that nobody after this sees a difference.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from detectors.events.envelopes import otlp
from detectors.events.event import Sample
from detectors.events.layouts import times
from detectors.events.vocabulary.metric_names import Tags, filtered, meaning_of, samples_of

Page = tuple[list[Sample], Tags, int]
"""Samples of one source: those that matter, the tags of their agent, and their time in epoch ms or 0."""

_ESCAPED = re.compile(r"\\(.)")
# measurement[,tag=value…] field=value[,…] [time]; a blank, comma or equals sign may be escaped, a text may hold any.
_LINE = re.compile(
    r"(?P<name>(?:[^\s,\\]|\\.)+)(?P<tags>(?:,(?:[^\s\\]|\\.)*)?) "
    r'(?P<fields>(?:[^\s"\\]|\\.|"(?:[^"\\]|\\.)*")+)(?: (?P<time>-?\d+))?\s*$'
)
_PAIR = re.compile(r"((?:[^,=\\]|\\.)+)=((?:[^,=\\]|\\.)*)")
_FIELD = re.compile(r'((?:[^,=\\]|\\.)+)=("(?:[^"\\]|\\.)*"|[^,]*)')
_VALUES = ("value", "gauge", "counter", "count")


class _MetricValue(msgspec.Struct, frozen=True):
    value: float


class _Single(msgspec.Struct, frozen=True):
    """Vector's metric, or prometheus-kafka-adapter's, whose value is a string."""

    name: str
    namespace: str | None = None
    tags: dict[str, Any] | None = None
    labels: dict[str, str] = {}
    timestamp: str | int | float | None = None
    value: str | float | None = None
    gauge: _MetricValue | None = None
    counter: _MetricValue | None = None
    kind: str = ""


class _Native(msgspec.Struct, frozen=True):
    metric: _Single


_decode_single = msgspec.json.Decoder(_Single).decode
_decode_native = msgspec.json.Decoder(_Native).decode


def is_line_protocol(text: str) -> bool:
    """Whether the first line is influx's: it has an equals sign outside of braces, which no Prometheus line has."""
    line = text.lstrip().partition("\n")[0]
    return _LINE.match(line) is not None and "=" in line.partition("{")[0]


def read_lines(text: str) -> list[Page]:
    """The pages of influx lines, one for each source. Raises ValueError, with the line, when one is none."""
    pages: dict[tuple[str, str], Page] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line[0] == "#":
            continue
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"line {number} is not influx line protocol: {line[:80]!r}")
        name = _plain(found["name"])
        own = name.startswith(("taskmanager_", "jobmanager_"))
        tags = {_plain(k): _plain(v) for k, v in _PAIR.findall(found["tags"])}
        time = times.of_number(int(found["time"])) if found["time"] else 0
        page = pages.setdefault((tags.get("cluster", ""), tags.get("host", "")), ([], tags, time))
        for metric, value in _numbers(f"flink_{name}" if own else name, found["fields"]):
            page[0].extend(_samples(metric, tags, value, own))
    return list(pages.values())


def _numbers(name: str, fields: str) -> Iterator[tuple[str, float]]:
    """(metric, value) of a line: the measurement is the metric, or its fields are (Telegraf's metric_version 2)."""
    numbers = {_plain(k): n for k, v in _FIELD.findall(fields) if (n := _number(v.rstrip("iu"))) is not None}
    if meaning_of(name)[0]:
        first = next((f for f in _VALUES if f in numbers), None)
        if first is not None:
            yield name, numbers[first]
        return
    yield from numbers.items()


def read_document(value: bytes) -> list[Page]:
    """The pages of a JSON document. Raises msgspec.MsgspecError (a ValueError) when it is none that is known."""
    if b'"resourceMetrics"' in value[:200]:
        return _otlp_pages(value)
    metric = (
        _decode_native(value).metric if value.lstrip()[1:].lstrip().startswith(b'"metric"') else _decode_single(value)
    )
    tags = metric.labels or {k: v for k, v in (metric.tags or {}).items() if isinstance(v, str)}
    name = f"{metric.namespace}_{metric.name}" if metric.namespace else metric.name
    told = metric.gauge or metric.counter
    number = told.value if told is not None else metric.value
    if number is None and not metric.kind:
        raise msgspec.ValidationError("Object holds no value")
    if isinstance(number, str):
        number = _number(number)
    # What grows by each record cannot be read as a level.
    if number is None or metric.kind == "incremental":
        return []
    return [(list(_samples(name, tags, number, own=False)), tags, _time(metric.timestamp))]


def _otlp_pages(value: bytes) -> list[Page]:
    pages = []
    for shared, points in otlp.metric_points(value):
        samples: list[Sample] = []
        time = 0
        for name, number, at, told in points:
            time = time or at
            own = "." in name
            samples.extend(_samples(filtered(name), {**shared, **told}, number, own))
        tags = {**shared, "host": shared.get("host") or shared.get("host.name") or shared.get("k8s.pod.name", "")}
        pages.append((samples, tags, time))
    return pages


def _samples(name: str, tags: Tags, value: float, own: bool) -> Iterator[Sample]:
    """`own`: Flink's own reporter wrote it, and put no label into Prometheus form."""
    event_type, collector = meaning_of(name)
    if not event_type:
        return
    if own:
        tags = {k: v if k == "host" else filtered(v) for k, v in tags.items()}
    yield from samples_of(event_type, {**tags, "collector": collector} if collector else tags, value)


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _time(timestamp: str | float | None) -> int:
    if isinstance(timestamp, str):
        return max(0, times.of_text(timestamp)[0])
    return times.of_number(timestamp) if timestamp is not None else 0
