"""The clock of a process is ahead of the broker's, so the times of its lines or samples are wrong.

Opens as info, which alone notifies no one, when `min_lines` lines in a row over at least `lasting` carry a time more
than `ahead` after the time at which Kafka received them. Nothing arrives before it was written, so this is certain. A
clock that is behind looks like slow shipping and is not reported. Only times with a certain time zone count: samples
with their own time, lines with a zone, the epoch in a JobManager's line about a triggered checkpoint, and lines of a
cluster whose zone is known from such an epoch. Resolved when as many lines in a row are in time.

Why it matters: durations across hosts, and the order of two findings, are wrong by that much. Flink's timers, tokens
and Kerberos tickets fail because of it, too. Reference: MIT Kerberos allows five minutes; NTP keeps below 1 s.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now
from detectors.events.event import LogEvent, MetricEvent
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Reading
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_SOURCES = 200
_QUARTER_MS = 15 * 60_000
_UNKNOWN = 1 << 62


class SkewedClock(msgspec.Struct, array_like=True):
    """A source whose clock is or was ahead: since when (Kafka's time), lines in a row, and their smallest lead (ms)."""

    since: int
    lines: int
    lead: int
    last: int
    host: str
    record: Evidence
    in_time: int = 0
    reported: bool = False


class ClockSkew(Detector):
    """Detects clocks that are ahead of Kafka's."""

    kind = "clock_skew"
    belongs_to = "cluster"
    event_types = frozenset(
        [
            *("checkpoint_triggered", "checkpoint_completed", "checkpoint_abort_noticed", "job_state"),
            *("task_state", "task_deploying", "tm_registered", "heap_used", "jm_heap_used"),
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `clock_skew`."""

        ahead: Duration = Field(
            30_000,
            description="Lead of a source's clock over Kafka's above which it is reported. Smaller leads do no harm, "
            "because scrapes are 10 s to 30 s apart.",
        )
        min_lines: int = Field(
            5,
            ge=2,
            description="Number of lines or samples in a row that must be ahead. A single one may have been replayed.",
        )
        lasting: Duration = Field(
            60_000, description="Time for which the lead must last, because NTP may be correcting it."
        )

    class State(msgspec.Struct, array_like=True):
        """Clocks by source. `zone` is the offset of this cluster's lines from UTC in ms, once an epoch has shown it."""

        clocks: dict[str, SkewedClock] = {}
        zone: int = _UNKNOWN

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:  # noqa: ARG002
        """Compare the time of a line or sample with Kafka's."""
        lead = self._lead(state, event)
        if lead is None:
            return
        clock = state.clocks.get(event.source)
        if lead <= self.config.ahead:
            if clock is not None:
                yield from self._in_time(state, event.source, clock, now)
            return
        record = Evidence(
            event.topic, event.partition, event.offset, event.timestamp, f"{humanize(lead)} ahead of Kafka"
        )
        if clock is None:
            put_bounded(
                state.clocks,
                event.source,
                SkewedClock(event.timestamp, 1, lead, event.timestamp, event.host, record),
                _MAX_SOURCES,
            )
            return
        clock.in_time = 0
        clock.lead = min(clock.lead, lead)
        if event.timestamp > clock.last:
            clock.lines, clock.last = clock.lines + 1, event.timestamp
        lasted = clock.last - clock.since >= self.config.lasting
        if not clock.reported and lasted and clock.lines >= self.config.min_lines:
            clock.reported = True
            yield self._finding(event.source, clock, now)

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:  # noqa: ARG002
        """Export by how much the clocks that are ahead lead."""
        for source, clock in state.clocks.items():
            if clock.reported:
                value = clock.lead / 1000
                yield Reading(name="source_clock_ahead_seconds", labels={"source": source}, value=value, at=now)

    def _lead(self, state: State, event: LogEvent | MetricEvent) -> int | None:
        """By how many ms the event's own time is after Kafka's; None when its own time is not certain."""
        if isinstance(event, MetricEvent):
            return event.time - event.timestamp
        if event.event_type == "checkpoint_triggered" and "epoch" in event.fields:
            epoch = int(event.fields["epoch"])
            if event.local_time >= 0 and not event.zoned:
                state.zone = round((event.local_time - epoch) / _QUARTER_MS) * _QUARTER_MS
            return epoch - event.timestamp
        if event.local_time < 0:
            return None
        if event.zoned:
            return event.local_time - event.timestamp
        lead = event.local_time - state.zone - event.timestamp
        # More than seven minutes off: probably another time zone, which no line has shown.
        return lead if state.zone != _UNKNOWN and lead < _QUARTER_MS // 2 else None

    def _in_time(self, state: State, source: str, clock: SkewedClock, now: Now) -> Iterator[Finding]:
        clock.in_time += 1
        if not clock.reported or clock.in_time >= self.config.min_lines:
            del state.clocks[source]
            if clock.reported:
                finding = self._finding(source, clock, now)
                finding.closed_at, finding.closed_because = now.clock, f"{clock.in_time} lines in a row were in time"
                yield finding

    def _finding(self, source: str, clock: SkewedClock, now: Now) -> Finding:
        return Finding(
            kind=self.kind,
            subject=source,
            entity={"host": clock.host},
            since=clock.since,
            at=now.clock,
            severity="info",
            summary=f"the clock of {source} is at least {humanize(clock.lead)} ahead of Kafka's, "
            "so the times in its lines and samples are wrong",
            confidence="sure",
            evidence=[clock.record],
            advice=f"Check the clock of {clock.host or source} (chronyc tracking, timedatectl) and the broker's: if "
            "all sources are ahead, the broker's clock is behind.",
        )
