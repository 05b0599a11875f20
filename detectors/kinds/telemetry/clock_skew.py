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
from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.facts import Fact
from detectors.incident import Evidence, Finding, Reading
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_SOURCES = 200
_QUARTER_MS = 15 * 60_000
_UNKNOWN = 1 << 62

_View: TypeAlias = "View[ClockSkew.Config, ClockSkew.State]"


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

    class Config(DetectorConfig):
        """Settings of the detector `clock_skew`."""

        ahead: Duration = threshold(
            30_000,
            "Lead of a source's clock over Kafka's above which it is reported. Smaller leads do no harm, because "
            "scrapes are 10 s to 30 s apart.",
        )
        min_lines: int = threshold(
            5, "Number of lines or samples in a row that must be ahead. A single one may have been replayed.", ge=2
        )
        min_duration: Duration = threshold(
            60_000,
            "Time for which a source's clock must stay ahead of Kafka's to be reported. NTP corrects shorter leads.",
        )

    class State(msgspec.Struct, array_like=True):
        """Clocks by source. `zone` is the offset of this cluster's lines from UTC in ms, once an epoch has shown it."""

        clocks: dict[str, SkewedClock] = {}
        zone: int = _UNKNOWN

    config: Config

    @on(
        *(facts.CheckpointTriggered, facts.CheckpointCompleted, facts.CheckpointAbortNoticed, facts.JobStateChanged),
        *(facts.TaskStateChanged, facts.TaskDeploying, facts.TaskManagerRegistered),
    )
    def line(self, view: _View, fact: Fact) -> None:
        lead = self._lead(view, fact)
        if lead is not None:
            self._compare(view, lead)

    @on("heap_used", "jm_heap_used")
    def sampled(self, view: _View, _: list[Sample]) -> None:
        self._compare(view, view.time - view.event.timestamp)

    def readings(self, view: _View) -> Iterator[Reading]:
        """By how much the clocks that are ahead lead."""
        for source, clock in view.state.clocks.items():
            if clock.reported:
                yield view.reading("source_clock_ahead_seconds", clock.lead / 1000, source=source)

    def _lead(self, view: _View, fact: Fact) -> int | None:
        """By how many ms a line's own time is after Kafka's; None when its own time is not certain."""
        event = view.line
        if isinstance(fact, facts.CheckpointTriggered) and fact.epoch >= 0:
            if event.local_time >= 0 and not event.zoned:
                view.state.zone = round((event.local_time - fact.epoch) / _QUARTER_MS) * _QUARTER_MS
            return fact.epoch - event.timestamp
        if event.local_time < 0:
            return None
        if event.zoned:
            return event.local_time - event.timestamp
        lead = event.local_time - view.state.zone - event.timestamp
        # More than seven minutes off: probably another time zone, which no line has shown.
        return lead if view.state.zone != _UNKNOWN and lead < _QUARTER_MS // 2 else None

    def _compare(self, view: _View, lead: int) -> None:
        """Compare the time of a line or sample with Kafka's."""
        source, time, clocks = view.event.source, view.event.timestamp, view.state.clocks
        clock = clocks.get(source)
        if lead <= self.config.ahead:
            if clock is not None:
                self._in_time(view, source, clock)
            return
        if clock is None:
            event = view.event
            text = f"{humanize(lead)} ahead of Kafka"
            record = Evidence(event.topic, event.partition, event.offset, time, text)
            put_bounded(clocks, source, SkewedClock(time, 1, lead, time, event.host, record), _MAX_SOURCES)
            return
        clock.in_time = 0
        clock.lead = min(clock.lead, lead)
        if time > clock.last:
            clock.lines, clock.last = clock.lines + 1, time
        lasted = clock.last - clock.since >= self.config.min_duration
        if not clock.reported and lasted and clock.lines >= self.config.min_lines:
            clock.reported = True
            view.report(self._finding(view, source, clock))

    def _in_time(self, view: _View, source: str, clock: SkewedClock) -> None:
        clock.in_time += 1
        if not clock.reported or clock.in_time >= self.config.min_lines:
            del view.state.clocks[source]
            if clock.reported:
                view.close(self._finding(view, source, clock), f"{clock.in_time} lines in a row were in time")

    def _finding(self, view: _View, source: str, clock: SkewedClock) -> Finding:
        return view.finding(
            source,
            {"host": clock.host},
            since=clock.since,
            severity="info",
            summary=f"the clock of {source} is at least {humanize(clock.lead)} ahead of Kafka's, "
            "so the times in its lines and samples are wrong",
            evidence=[clock.record],
            advice=f"Check the clock of {clock.host or source} (chronyc tracking, timedatectl) and the broker's: if "
            "all sources are ahead, the broker's clock is behind.",
        )
