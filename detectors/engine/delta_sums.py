"""Adds up the counters of reporters that send increases instead of current values (OTLP: delta temporality).

Flink's own OpenTelemetry reporter sends every counter so. Detectors compare the values of a counter over time, so an
increase becomes the sum of all increases seen. The sum begins with 0, like the counter of a process that has just
started, whenever flinkwatch first sees the series.
"""

from hashlib import blake2b

import msgspec

from detectors.events.event import MetricEvent, Sample

_MAX_SERIES = 20_000
_FORGET_MS = 3_600_000
# A point from a host whose clock is ahead must not make all later ones look old.
_AHEAD_MS = 600_000
_MOST = 2.0**53


class DeltaSums(msgspec.Struct, array_like=True):
    """Sum and end of the last interval of each series, by a hash of name and labels, the last changed ones last."""

    series: dict[int, tuple[int | float, int]] = {}

    def summed(self, event: MetricEvent) -> MetricEvent:
        """The event with current values only. An interval that was seen before adds nothing."""
        if not any(sample.until for sample in event.samples):
            return event
        samples = [s for sample in event.samples if (s := self._summed(sample, event.timestamp)) is not None]
        return msgspec.structs.replace(event, samples=samples)

    def _summed(self, sample: Sample, now: int) -> Sample | None:
        if not sample.until:
            return sample
        key, until = _key(sample), min(sample.until, now + _AHEAD_MS)
        before = self.series.get(key)
        if before is None and not self._has_room(until):
            return None
        known, last = before or (0, 0)
        if until <= last:
            return None
        total = float(known) + sample.value
        if abs(total) > _MOST:
            total = 0.0
        self.series.pop(key, None)
        # An integer needs fewer bytes.
        self.series[key] = (int(total) if total.is_integer() else total), until
        return Sample(sample.name, sample.labels, total)

    def _has_room(self, now: int) -> bool:
        """Whether another series can be kept: series of processes that have ended make room, all others stay.

        A series that was dropped and began again with 0 would look like a process that started again.
        """
        if len(self.series) < _MAX_SERIES:
            return True
        oldest = next(iter(self.series))
        if now - self.series[oldest][1] <= _FORGET_MS:
            return False
        del self.series[oldest]
        return True


def _key(sample: Sample) -> int:
    text = "\0".join((sample.name, *(f"{name}\1{value}" for name, value in sorted(sample.labels.items()))))
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), signed=True)
