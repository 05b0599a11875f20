"""Flink's metric vocabulary, and the two envelopes that carry it: Prometheus text and Telegraf JSON.

Names are Flink's own in Prometheus form (`flink_` + scope + `_` + metric); Telegraf keeps them. Values of labels are
compared in Prometheus form as well, where every character outside [a-zA-Z0-9:_] is an underscore.
"""

import math
import re
from collections.abc import Iterator

import msgspec

from detectors.events.event import Sample

NAMES: dict[str, str] = {
    "flink_jobmanager_numRegisteredTaskManagers": "registered_task_managers",
    "flink_jobmanager_job_lastCheckpointDuration": "last_checkpoint_duration",
    "flink_jobmanager_job_numberOfCompletedCheckpoints": "completed_checkpoints",
    "flink_jobmanager_job_numberOfInProgressCheckpoints": "checkpoints_in_progress",
    "flink_taskmanager_job_task_numRecordsIn": "records_in",
}
"""Prometheus name → the name detectors use. Durations are milliseconds, as Flink writes them."""

LABELS = ("job_id", "job_name", "tm_id", "host", "task_id", "task_name", "subtask_index")

GATE: tuple[str, ...] = tuple(
    dict.fromkeys(n.removeprefix("flink_jobmanager_").removeprefix("flink_taskmanager_") for n in NAMES)
)
"""The literals of which every metric record that matters holds at least one."""

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? +(\S+)(?: +(-?\d+))?\s*$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_MAX_LABEL = 300
_UNESCAPED = {"n": "\n"}


class _TelegrafMetric(msgspec.Struct):
    name: str
    fields: dict[str, float | str | bool | None]
    tags: dict[str, str] = {}
    timestamp: int | float = 0


class _TelegrafBatch(msgspec.Struct):
    metrics: list[_TelegrafMetric]


_decode_metric = msgspec.json.Decoder(_TelegrafMetric).decode
_decode_batch = msgspec.json.Decoder(_TelegrafBatch).decode

Tags = dict[str, str]


def filtered(value: str) -> str:
    """An id as Prometheus writes it in a label: compare ids of logs and metrics in this form only."""
    return re.sub(r"[^a-zA-Z0-9:_]", "_", value)


def read_prometheus(text: str) -> list[Sample]:
    """The samples of a Prometheus text page that matter. Raises ValueError, with the line, when it is not one."""
    samples: list[Sample] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line[0] == "#":
            continue
        found = _SAMPLE.match(line)
        if found is None:
            raise ValueError(f"line {number} is not a Prometheus sample: {line[:80]!r}")
        name = NAMES.get(found[1])
        if name is not None:
            tags = {k: _ESCAPE.sub(lambda m: _UNESCAPED.get(m[1], m[1]), v) for k, v in _LABEL.findall(found[2] or "")}
            samples.extend(_sample(name, tags, float(found[3])))
    return samples


def read_telegraf(value: bytes) -> tuple[list[Sample], Tags, int]:
    """(samples that matter, tags of the agent, time in epoch ms or 0) of Telegraf JSON, single or batch.

    Both shapes of its Prometheus input are read: `metric_version = 1` (the metric is the name, the value a field) and 2
    (the name is "prometheus", the metric a field). Raises msgspec.MsgspecError (a ValueError) when it is neither.
    """
    batch = b'"metrics"' in value[:64]
    metrics = _decode_batch(value).metrics if batch else [_decode_metric(value)]
    samples: list[Sample] = []
    for metric in metrics:
        for name, number in _fields(metric):
            samples.extend(_sample(name, metric.tags, number))
    first = metrics[0] if metrics else None
    return samples, (first.tags if first else {}), _epoch_ms(first.timestamp if first else 0)


def _fields(metric: _TelegrafMetric) -> Iterator[tuple[str, float]]:
    single = NAMES.get(metric.name)
    for field, value in metric.fields.items():
        name = single or NAMES.get(field)
        if name is not None and isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)
            if single:
                return


def _sample(name: str, tags: Tags, value: float) -> Iterator[Sample]:
    if math.isfinite(value):
        yield Sample(name, {k: tags[k][:_MAX_LABEL] for k in LABELS if k in tags}, value)


def _epoch_ms(timestamp: float) -> int:
    """Telegraf's json_timestamp_units is seconds by default, but may be ms, us or ns: told apart by size."""
    for limit, scale in ((1e11, 1000.0), (1e14, 1.0), (1e17, 1e-3)):
        if abs(timestamp) < limit:
            return int(timestamp * scale)
    return int(timestamp * 1e-6) if abs(timestamp) < 1e20 else 0
