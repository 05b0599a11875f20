"""Records as they are in Kafka, and the events that are read from them.

All times are epoch milliseconds, except `local_time` of a `LogEvent`: the time printed in the line, read as if it were
UTC, -1 if there is none. Its time zone is learned later, per source (`time_zones.py`), unless the line is `zoned`.
"""

from collections.abc import Iterable

import msgspec


class Record(msgspec.Struct, frozen=True):
    """One Kafka record. `timestamp` is Kafka's, in epoch milliseconds; `headers` are (name, value) pairs."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class LogEvent(msgspec.Struct, array_like=True, tag="log"):
    """A log line that a detector uses: `event_type` is one of `vocabulary`, `fields` are named parts of the line."""

    event_type: str
    cluster: str
    source: str
    host: str
    timestamp: int
    local_time: int
    topic: str
    partition: int
    offset: int
    fields: dict[str, str]
    text: str
    zoned: bool = False


class Sample(msgspec.Struct, array_like=True):
    """One metric sample: `name` is a value of `metric_names.NAMES`, `labels` has only keys in `metric_names.LABELS`.

    If `until` is set, `value` is what was added in the interval that ends then (epoch ms). `delta_sums` adds them up.
    """

    name: str
    labels: dict[str, str]
    value: float
    until: int = 0


def samples_by_job(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """The samples that name a job, by its id."""
    by_job: dict[str, list[Sample]] = {}
    for sample in samples:
        if job_id := sample.labels.get("job_id"):
            by_job.setdefault(job_id, []).append(sample)
    return by_job


class MetricEvent(msgspec.Struct, array_like=True, tag="metric"):
    """The samples of one record that detectors use, one or a whole scrape. `time` is when they were taken."""

    cluster: str
    source: str
    host: str
    timestamp: int
    time: int
    topic: str
    partition: int
    offset: int
    samples: list[Sample]


class Rejected(msgspec.Struct, frozen=True):
    """A record that cannot be read: `reason` is from a fixed set, `detail` says what is wrong and what is allowed."""

    reason: str
    detail: str
    record: Record


Event = LogEvent | MetricEvent
