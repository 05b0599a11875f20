"""A source falls behind its input, and does not catch up.

Opens when the lag of a source has grown along a line for `min_duration` and by more than `min_growth` of input: event
time (or Kinesis' time behind the end of a shard), or, where a source has none, records in Kafka in relation to those
that it reads. The finding names the source and how fast it falls behind, the share of the input that is processed, and
when the lag reaches the next round duration. While the lag shrinks it forecasts when the lag is gone.

Not reported: a large lag that shrinks, such as a backlog at the start or after a restart; a constant lag; a jump; a
saw-tooth; a source that waits for records; a batch that was written at once and is read; a lag that grows faster than
the clock, which is that of older records; a peak at a time of day at which two earlier ones have drained. Resolved when
the lag was small, or at most half of its peak, for as long as it took to open, or when the job ends.

Why it matters: results are late by the lag, and records older than the topic's retention are lost.
Reference: Flink, "Metrics", `currentEmitEventTimeLag` and `pendingRecords`; Kafka, `records-lag-max`.
"""

from statistics import median
from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobStates, JobView, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.facts import Fact
from detectors.flink.job_states import RESTARTING
from detectors.flink.lag_growth import LagGrowth, LeastGrowth, drained_at, growth
from detectors.flink.source_lag import COUNTERS, LAG_METRICS, JobSources, SourceLag
from detectors.incident import Evidence, Finding, Forecast, Series
from detectors.numerics.daily_peaks import DailyPeaks
from detectors.numerics.trend import thin
from detectors.patterns.until_job_ends import UntilJobEnds
from detectors.values.bounded import append_new
from detectors.values.durations import Duration, humanize

_MAX_RECORDS = 5
_NEWEST = 3
_AS_USUAL = 1.5
_MORE = 2.0

_Job: TypeAlias = "JobView[LagGrowing.Config, JobStates[JobLag], JobLag]"
_View: TypeAlias = "View[LagGrowing.Config, JobStates[JobLag]]"


class OpenLag(msgspec.Struct, array_like=True):
    """A lag that has grown: its source and event time, and its highest level with the time of it.

    `low` is since when the lag is low again (0: it is not), `lows` how many points. `reported` is the level of the last
    report (-1: not reported, because the peak is usual). `drains`: the last report was that it shrinks.
    """

    source: str
    name: str
    since: int
    peak: float
    peaked: int
    timed: bool
    text: str = ""
    forecast: Forecast | None = None
    points: list[tuple[int, float]] = []
    records: list[Evidence] = []
    low: int = 0
    lows: int = 0
    reported: float = -1.0
    drains: bool = False


class JobLag(msgspec.Struct, array_like=True):
    """The sources of a job, its lag that has grown, and its last peaks."""

    sources: JobSources = msgspec.field(default_factory=JobSources)
    open: OpenLag | None = None
    peaks: DailyPeaks = msgspec.field(default_factory=DailyPeaks)


class LagGrowing(UntilJobEnds):
    """Detects sources that fall behind their input."""

    kind = "lag_growing"
    Job = JobLag
    State = JobStates[JobLag]

    class Config(DetectorConfig):
        """Settings of the detector `lag_growing`."""

        min_growth: Duration = threshold(
            60_000, "Growth of the lag, in event time or in time of input, from which it is reported."
        )
        min_duration: Duration = threshold(
            120_000, "Minimum time for which the lag must grow, and for which it must be low again to be resolved."
        )
        min_samples: int = threshold(5, "Minimum number of scrapes in which the lag must grow, and be low again.", ge=3)
        min_records: int = threshold(
            1_000, "Growth of the lag in records from which it is reported if a source has no event time.", ge=1
        )

    @on(facts.JobRestored)
    def restored(self, job: _Job, _: Fact) -> None:
        job.own.sources.restart()

    def job_continues(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if fact.state in RESTARTING:
            job.own.sources.restart()

    @on(*LAG_METRICS, *COUNTERS, job="none")
    def measured(self, view: _View, samples: list[Sample]) -> None:
        # A source is known by its lag. Only then do its counters of records matter.
        for sample in sorted(samples, key=lambda s: s.name in COUNTERS):
            job_id = sample.labels.get("job_id", "")
            job = self.job(view, job_id) if sample.name in COUNTERS or not job_id else self.new_job(view, job_id)
            if job is not None and (source := job.own.sources.take(sample, view.time)):
                self._judge(job, source)

    def _judge(self, job: _Job, key: str) -> None:
        """Open, update or close the finding after a new point of a source."""
        own, config, source = job.own, job.config, job.own.sources.sources[key]
        if own.open is not None and own.open.source != key and not own.open.lows:
            return
        least = LeastGrowth(config.min_growth, config.min_records, config.min_duration, config.min_samples)
        found = growth(source.history, source.timed, least)
        if own.open is not None and own.open.source == key:
            self._follow(job, own.open, source, found)
        elif found is not None:
            before = own.open
            own.open = OpenLag(key, source.name, found.since, found.level, found.now, source.timed)
            if before is not None:
                # Another source takes over while the first one catches up.
                own.open.since, own.open.reported, own.open.records = before.since, before.reported, before.records
                own.open.drains = True
            self._grows(job, own.open, source, found)

    def _follow(self, job: _Job, lag: OpenLag, source: SourceLag, found: LagGrowth | None) -> None:
        """The lag has another point: it grows on, drains, or is low again. Single records may have any event time."""
        newest = source.history.points(0, _NEWEST)
        last, level = newest[-1], median(p.value for p in newest)
        if level > lag.peak or lag.timed != source.timed:
            lag.peak, lag.peaked, lag.timed, lag.drains = level, last.time, source.timed, False
        if level > max(lag.peak / 2, job.config.min_growth / 2 if lag.timed else 0):
            lag.low = lag.lows = 0
        else:
            lag.low, lag.lows = lag.low or last.time, lag.lows + 1
        if lag.lows >= job.config.min_samples and last.time - lag.low >= job.config.min_duration:
            self.close_open(job, lag, f"the lag fell {_fall(lag, level)}")
        elif found is not None:
            self._grows(job, lag, source, found)
        elif not lag.drains and level < lag.peak:
            self._drains(job, lag, source, level)

    def _grows(self, job: _Job, lag: OpenLag, source: SourceLag, found: LagGrowth) -> None:
        """Report a lag that grows if it is more than on other days, and again each time that it has doubled."""
        usual = job.own.peaks.usual(job.time) * _AS_USUAL if lag.reported < 0 else 0.0
        if found.level > usual and (lag.drains or found.level >= lag.reported * _MORE):
            lag.reported, lag.drains = found.level, False
            lag.text, lag.forecast, lag.points = found.words(lag.name), found.forecast(), _points(source)
            append_new(lag.records, job.record(lag.text[:500]), _MAX_RECORDS)
            job.report(self._finding(job, lag))

    def _drains(self, job: _Job, lag: OpenLag, source: SourceLag, level: float) -> None:
        """Report when the lag will be gone, once."""
        gone = drained_at([p for p in source.history.points(0) if p.time >= lag.peaked])
        if gone is not None and lag.reported >= 0:
            lag.drains, lag.points = True, _points(source)
            lag.text = f"{lag.name} catches up: its lag fell {_fall(lag, level)}"
            lag.forecast = Forecast("the lag is drained", gone, gone, gone)
            job.report(self._finding(job, lag))

    def close_open(self, job: _Job, lag: OpenLag, why: str) -> None:
        if lag.reported >= 0:
            job.close(self._finding(job, lag), why)
        job.own.peaks.add(lag.peaked, lag.peak)
        job.own.open = None

    def _finding(self, job: _Job, found: OpenLag) -> Finding:
        return job.finding(
            job.id,
            job.entity(task=found.name),
            since=found.since,
            severity="warning",
            summary=found.text,
            evidence=found.records,
            forecast=found.forecast,
            series=Series("lag", "s" if found.timed else "records", found.points),
            advice="Find the slowest operator behind this source in Flink's UI: the first busy one after backpressured "
            "ones. If there is none and the source itself is busy, reading or deserializing is the limit; if more "
            "records arrive than usual, the job is too small for them. Compare the lag with the topic's retention: "
            "what is older is lost before it is read. To prevent it: raise the parallelism (of a source up to its "
            "number of partitions), and speed up the slow operator.",
        )


def _fall(lag: OpenLag, level: float) -> str:
    return f"from {humanize(lag.peak)} to {humanize(level)}" if lag.timed else f"from {lag.peak:,.0f} to {level:,.0f}"


def _points(source: SourceLag) -> list[tuple[int, float]]:
    return thin([(p.time, round(p.value / (1_000 if source.timed else 1), 3)) for p in source.history.points(0)])
