"""The readings of a cluster next to the limits of their detectors, as both are now."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from detectors.incident import Reading
from sinks.prometheus.catalogue import READINGS
from sinks.web.site.configuration import Effective
from sinks.web.site.documents import DetectorNow, Measure, ReadingNow

OTHER = "other"
"""The kind under which readings are listed that belong to no detector."""


class Compared(NamedTuple):
    """What a detector compares a reading with: one of its settings, or another reading with the same labels.

    `per_unit`: how much of the setting's unit is one of the reading's, such as 1000 ms for a second. `below`: values
    under the limit are the bad ones.
    """

    kind: str
    setting: str = ""
    reading: str = ""
    measure: Measure = "value"
    per_unit: float = 1.0
    below: bool = False


COMPARED: Mapping[str, Compared] = {
    "busiest_subtask_ratio": Compared("backpressure", "busy_ms_per_s", per_unit=1000),
    "checkpoint_consecutive_failures": Compared("checkpoint_failing", "in_a_row"),
    "checkpoint_duration_last_seconds": Compared("checkpoint_overdue", reading="checkpoint_overdue_limit_seconds"),
    "checkpoint_duration_slope_ratio": Compared("checkpoint_duration_creep"),
    "checkpoint_duration_usual_seconds": Compared("checkpoint_overdue", reading="checkpoint_overdue_limit_seconds"),
    "checkpoint_in_flight_since_timestamp_seconds": Compared(
        "checkpoint_overdue", reading="checkpoint_overdue_limit_seconds", measure="age"
    ),
    "checkpoint_limit_reached_timestamp_seconds": Compared(
        "checkpoint_duration_creep", "horizon", measure="time_left", per_unit=1000, below=True
    ),
    "checkpoint_overdue_limit_seconds": Compared("checkpoint_overdue"),
    "checkpoints_since_commit": Compared("zero_input_leak", "min_checkpoints"),
    "gc_time_ratio": Compared("heap_exhaustion", "gc_share"),
    "heap_floor_bytes": Compared("zero_input_leak"),
    "heap_full_timestamp_seconds": Compared(
        "zero_input_leak", "horizon", measure="time_left", per_unit=1000, below=True
    ),
    "input_skew_ratio": Compared("backpressure"),
    "last_log_line_timestamp_seconds": Compared("telemetry_lost", "min_gap", measure="age", per_unit=1000),
    "last_sample_timestamp_seconds": Compared("telemetry_lost", "min_gap", measure="age", per_unit=1000),
    "source_clock_ahead_seconds": Compared("clock_skew", "ahead", per_unit=1000),
}
"""By the name of a reading: its detector, and the limit."""

_NONE = Compared(OTHER)
Key = tuple[str, tuple[tuple[str, str], ...]]


def readings_now(
    readings: Iterable[Reading], effective: Callable[[str], Mapping[str, Effective]], now_ms: int
) -> dict[str, list[ReadingNow]]:
    """The readings of one cluster by the kind of their detector, next to the limits in force for their jobs.

    `effective` gives the settings of all detectors for a job.
    """
    every = sorted(readings, key=lambda reading: reading.key())
    values = {_key(reading.name, reading.labels): reading.value for reading in every}
    found: dict[str, list[ReadingNow]] = {}
    for reading in every:
        compared = COMPARED.get(reading.name, _NONE)
        settings = effective(reading.labels.get("job", "")).get(compared.kind)
        limit = _limit(compared, settings, values, reading.labels)
        found.setdefault(compared.kind, []).append(_with_limit(reading, compared, settings, limit, now_ms))
    return found


def detectors_now(
    readings: Mapping[str, list[ReadingNow]], settings: Mapping[str, Effective], opened: Mapping[str, int]
) -> list[DetectorNow]:
    """The detectors that have readings or open incidents in a cluster; `opened` counts these by kind."""
    kinds = sorted({*readings, *opened} - {OTHER})
    return [
        DetectorNow(
            kind=kind,
            enabled=settings[kind].config.enabled if kind in settings else False,
            open=opened.get(kind, 0),
            settings=settings[kind].written if kind in settings else {},
            readings=readings.get(kind, []),
        )
        for kind in (*kinds, *([OTHER] if OTHER in readings else []))
    ]


def _limit(
    compared: Compared, settings: Effective | None, values: Mapping[Key, float], labels: Mapping[str, str]
) -> float | None:
    if compared.reading:
        return values.get(_key(compared.reading, labels))
    if not compared.setting or settings is None:
        return None
    return float(getattr(settings.config, compared.setting)) / compared.per_unit


def _with_limit(
    reading: Reading, compared: Compared, settings: Effective | None, limit: float | None, now_ms: int
) -> ReadingNow:
    by_measure = {
        "value": reading.value,
        "age": now_ms / 1000 - reading.value,
        "time_left": reading.value - now_ms / 1000,
    }
    now = _finite(by_measure[compared.measure]) if limit is not None else None
    described = READINGS.get(reading.name)
    return ReadingNow(
        name=reading.name,
        labels={name: value for name, value in reading.labels.items() if name != "cluster"},
        value=_finite(reading.value),
        at=reading.at,
        help=described.help if described is not None else "",
        measure=compared.measure,
        now=now,
        limit=limit,
        limit_from=compared.reading or (f"{compared.kind}.{compared.setting}" if compared.setting else ""),
        overridden=settings is not None and compared.setting in settings.overridden,
        exceeded=now is not None and limit is not None and (now < limit if compared.below else now > limit),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _key(name: str, labels: Mapping[str, str]) -> Key:
    return name, tuple(sorted(labels.items()))
