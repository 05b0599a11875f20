"""Records, and the events they become.

A record is what Kafka holds; an event is its meaning. All times are epoch milliseconds, except `local_time` of a
`LogEvent`, which is the time printed in the line read as if it were UTC: its zone is learned later, per source
(`time_zones.py`), unless the line told it (`zoned`); -1 when the line has none.
"""

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
    """A log line that matters: `meaning` is an entry of `vocabulary`, `fields` its named parts."""

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
    """One metric sample: `name` is an entry of `metrics.NAMES`, `labels` only those in `metrics.LABELS`."""

    name: str
    labels: dict[str, str]
    value: float


class MetricEvent(msgspec.Struct, array_like=True, tag="metric"):
    """The samples of one record that matter: a whole scrape, or a single one. `time` is when they were taken."""

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
    """A record that cannot be read: `reason` is from a small fixed set, `detail` says where and what is allowed."""

    reason: str
    detail: str
    record: Record


Event = LogEvent | MetricEvent
