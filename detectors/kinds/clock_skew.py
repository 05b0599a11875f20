"""A clock that is ahead of the broker's, so that the times of its lines or samples cannot be believed.

Info, never told alone, when `min_lines` lines in a row over at least `lasting` carry a time more than `ahead` after the
time at which Kafka took them in. Nothing arrives before it was written, so this is certain. A clock that is behind
looks like slow shipping and is not said. Only times whose zone is certain count: samples with a time of their own,
lines with a zone, the epoch in a JobManager's line about a triggered checkpoint, and lines of a cluster whose zone that
epoch has told. Ends when as many lines in a row are in time.

Why an operator cares: durations across hosts, and which of two findings came first, are wrong by that much; Flink's own
timers, tokens and Kerberos tickets fail by it, too. Reference: MIT Kerberos allows five minutes; NTP keeps below 1 s.
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
    """A source that is ahead, or was: since when (Kafka's time), lines in a row, the smallest lead in them (ms)."""

    since: int
    lines: int
    lead: int
    last: int
    host: str
    record: Evidence
    in_time: int = 0
    said: bool = False


class ClockSkew(Detector):
    """See the module."""

    kind = "clock_skew"
    event_types = frozenset(
        [
            *("checkpoint_triggered", "checkpoint_completed", "checkpoint_abort_noticed", "job_state"),
            *("task_state", "task_deploying", "tm_registered", "heap_used", "jm_heap_used"),
        ]
    )

    class Config(DetectorConfig):
        """Thresholds of clock_skew."""

        ahead: Duration = Field(
            30_000,
            description="A lead below this does no harm: scrapes are 10 s to 30 s apart.",
        )
        min_lines: int = Field(5, ge=2, description="Lines in a row: one may have been written by hand or replayed.")
        lasting: Duration = Field(60_000, description="The lead lasts at least this long: NTP may be correcting it.")

    class State(msgspec.Struct, array_like=True):
        """Clocks by source; `zone` is the offset of this cluster's lines from UTC, ms, once an epoch has told it."""

        clocks: dict[str, SkewedClock] = {}
        zone: int = _UNKNOWN

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:  # noqa: ARG002
        """Hold the time in a line or sample against Kafka's."""
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
        if not clock.said and lasted and clock.lines >= self.config.min_lines:
            clock.said = True
            yield self._finding(event.source, clock, now)

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:  # noqa: ARG002
        """By how much the clocks that are ahead are so."""
        for source, clock in state.clocks.items():
            if clock.said:
                value = clock.lead / 1000
                yield Reading(name="source_clock_ahead_seconds", labels={"source": source}, value=value, at=now)

    def _lead(self, state: State, event: LogEvent | MetricEvent) -> int | None:
        """By how much the event's own time is after Kafka's, ms; None when its own time is not certain."""
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
        # Half a quarter of an hour off or more: another zone, which no line has told.
        return lead if state.zone != _UNKNOWN and lead < _QUARTER_MS // 2 else None

    def _in_time(self, state: State, source: str, clock: SkewedClock, now: Now) -> Iterator[Finding]:
        clock.in_time += 1
        if not clock.said or clock.in_time >= self.config.min_lines:
            del state.clocks[source]
            if clock.said:
                finding = self._finding(source, clock, now)
                finding.closed_at, finding.closed_because = now.clock, f"{clock.in_time} lines in a row are in time"
                yield finding

    def _finding(self, source: str, clock: SkewedClock, now: Now) -> Finding:
        return Finding(
            kind=self.kind,
            subject=source,
            entity={"host": clock.host},
            since=clock.since,
            at=now.clock,
            severity="info",
            summary=f"the clock of {source} is at least {humanize(clock.lead)} ahead of Kafka's: "
            "its times are not to be believed",
            confidence="sure",
            evidence=[clock.record],
            advice=f"Look at the clock of {clock.host or source} (chronyc tracking, timedatectl), and at the broker's: "
            "if all sources are ahead, the broker is behind.",
        )
