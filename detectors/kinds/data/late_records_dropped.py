"""A window operator drops records because they are late.

Opens when, within `window`, an operator has dropped `min_share` of its input and at least `min_records`, spread over
three pieces of that time: Flink's counter `numLateRecordsDropped` against the operator's own input. Critical if it
drops half of its input. The finding names the operator.

Not reported: single late records, one burst of them, operators whose input is not counted; a small share within
`catch_up` after a restart, when partitions are read at different speeds. Resolved when the share in no
part of a whole `window` is half of `min_share`, while samples come, or when the job ends.

Why it matters: the job is healthy for every other measure, but these records are missing from its results for good.
Reference: Flink, "Metrics" and "Windows", allowed lateness; FLINK-38477.
"""

from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobStates, JobView, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.facts import Fact
from detectors.flink.job_states import RESTARTING
from detectors.flink.operator_counters import OperatorCounters
from detectors.incident import Evidence, Finding
from detectors.patterns.until_job_ends import UntilJobEnds
from detectors.values.bounded import append_new, setdefault_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_OPERATORS = 64
_MAX_RECORDS = 5
_PIECES = 15
_WITH_DROPS = 3
_AFTER_RESTART = 10
_HALF = 0.5
_WORSE = 2
_DROPPED, _READ = "late_records", "operator_records_in"

_Job: TypeAlias = "JobView[LateRecordsDropped.Config, JobStates[JobDrops], JobDrops]"
_View: TypeAlias = "View[LateRecordsDropped.Config, JobStates[JobDrops]]"


class DropStretch(msgspec.Struct, array_like=True):
    """Dropped records since an event time: for how many ms, what share of the input, and how many."""

    since: int
    took: int
    share: float
    dropped: float


class OpenDrops(msgspec.Struct, array_like=True):
    """The open finding: its operator by id and name, event time of its start, and the stretch of the last report."""

    operator: str
    name: str
    since: int
    stretch: DropStretch
    records: list[Evidence] = []


class JobDrops(msgspec.Struct, array_like=True):
    """The window operators of a job by id, the event time of its last restart, and its open finding."""

    operators: dict[str, OperatorCounters] = {}
    restarted: int = LONG_AGO
    open: OpenDrops | None = None


class LateRecordsDropped(UntilJobEnds):
    """Detects window operators that drop late records."""

    kind = "late_records_dropped"
    Job = JobDrops
    State = JobStates[JobDrops]

    class Config(DetectorConfig):
        """Settings of the detector `late_records_dropped`."""

        min_share: float = threshold(
            0.01, "Share of an operator's input (0 to 1) from which dropped records are reported.", gt=0, le=1
        )
        min_records: int = threshold(20, "Minimum number of dropped records. Single late records are ignored.", ge=1)
        window: Duration = threshold(
            300_000,
            "Time over which dropped records are compared with the input, and for which the share must be small again "
            "to be resolved.",
            ge=60_000,
        )
        catch_up: Duration = threshold(
            300_000,
            "Time after a restart in which ten times the share is needed, because partitions are read at different "
            "speeds.",
        )

    @on(facts.JobRestored)
    def restored(self, job: _Job, _: Fact) -> None:
        self._restarted(job)

    def job_continues(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if fact.state in RESTARTING:
            self._restarted(job)

    @on(_DROPPED, _READ, job="none")
    def measured(self, view: _View, samples: list[Sample]) -> None:
        sampled: dict[tuple[str, str], _Job] = {}
        # All operators count their input, but only those that drop records have the other counter.
        for sample in sorted(samples, key=lambda s: s.name == _READ):
            labels = sample.labels
            job_id, operator = labels.get("job_id", ""), labels.get("operator_id") or labels.get("operator_name", "")
            job = self.job(view, job_id) if sample.name == _READ or not job_id else self.new_job(view, job_id)
            if job is None or (sample.name == _READ and operator not in job.own.operators):
                continue
            name = labels.get("operator_name") or labels.get("task_name") or operator
            own = setdefault_bounded(job.own.operators, operator, OperatorCounters(name), _MAX_OPERATORS)
            piece = job.config.window // _PIECES
            own.take(sample.name, labels.get("subtask_index", ""), sample.value, view.time, piece, job.config.window)
            sampled[job_id, operator] = job
        for (_, operator), job in sampled.items():
            if operator in job.own.operators:
                self._judge(job, operator, job.own.operators[operator])

    def _restarted(self, job: _Job) -> None:
        job.own.restarted = job.time
        for operator in job.own.operators.values():
            operator.restart()

    def _judge(self, job: _Job, key: str, operator: OperatorCounters) -> None:
        """Open, update or close the finding after new samples of an operator."""
        own, config, drops = job.own, job.config, job.own.open
        if drops is not None and drops.operator != key:
            return
        wanted = config.min_share * (_AFTER_RESTART if job.time - own.restarted < config.catch_up else 1)
        found = _worst(operator, config.min_records)
        if found is not None and found.share >= min(wanted, 1.0):
            if drops is None:
                own.open = OpenDrops(key, operator.name, found.since, found)
                self._report(job, own.open)
            elif found.share >= _WORSE * drops.stretch.share or found.share >= _HALF > drops.stretch.share:
                drops.stretch = found
                self._report(job, drops)
        share = max(_share(operator.sum(_DROPPED), operator.sum(_READ)), found.share if found is not None else 0.0)
        if drops is not None and share < config.min_share / 2 and _covers(operator, config.window):
            why = f"it dropped {share:.1%} of its input in {humanize(config.window)}"
            job.close(self._finding(job, drops), why)
            own.open = None

    def _report(self, job: _Job, drops: OpenDrops) -> None:
        append_new(drops.records, job.record(self._finding(job, drops).summary), _MAX_RECORDS)
        job.report(self._finding(job, drops))

    def close_open(self, job: _Job, found: OpenDrops, why: str) -> None:
        job.close(self._finding(job, found), why)
        job.own.open = None

    def _finding(self, job: _Job, drops: OpenDrops) -> Finding:
        worst = drops.stretch
        share = f"{worst.share:.0%}" if worst.share >= 0.1 else f"{worst.share:.1%}"
        return job.finding(
            job.id,
            job.entity(task=drops.name),
            since=drops.since,
            severity="critical" if worst.share >= _HALF else "warning",
            summary=f"{drops.name} drops late records: {worst.dropped:,.0f} in {humanize(worst.took)}, {share} of its "
            "input; they are missing from the results for good",
            confidence="sure",
            evidence=drops.records,
            advice="Find out whether these records are late or the watermark runs ahead. Compare the watermarks of the "
            "source's subtasks in Flink's UI: a partition or a producer whose times are in the future pushes the "
            "watermark past all others, and so do source subtasks that have finished (FLINK-38477). To prevent it: a "
            "larger bound for records out of order, allowedLateness, watermark alignment between splits, and a side "
            "output that keeps late records.",
        )


def _worst(operator: OperatorCounters, least: int) -> DropStretch | None:
    """The stretch up to now with the largest share of dropped records: not single ones, and in several pieces."""
    found, dropped, read, times = None, 0.0, 0.0, 0
    for piece in reversed(operator.pieces):
        more = piece.grown.get(_DROPPED, 0.0)
        dropped, read, times = dropped + more, read + piece.grown.get(_READ, 0.0), times + (more > 0)
        share = _share(dropped, read)
        if times >= _WITH_DROPS and dropped >= least and (found is None or share > found.share):
            found = DropStretch(piece.start, operator.newest - piece.start, share, dropped)
    return found


def _share(dropped: float, read: float) -> float:
    """The share of dropped records; at most 1, because the counters of one scrape may be in several records."""
    return min(dropped / read, 1.0) if read > 0 else 0.0


def _covers(operator: OperatorCounters, window: int) -> bool:
    """Whether samples came in the whole window: a counter that is no longer exported proves nothing."""
    pieces = operator.pieces
    return len(pieces) >= _WITH_DROPS and pieces[-1].start - pieces[0].start >= window - 2 * window // _PIECES
