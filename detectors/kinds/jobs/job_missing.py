"""A job that should run does not.

Opens as a warning for a job that ran for `ran_for`, if it was cancelled, or a JobManager was granted leadership and has
not named it since, and no job of its name runs `redeploy_within` later; and for a job that stays in CREATED,
INITIALIZING or RECONCILING for `stuck_for`. Opens as critical for a name in `expected` if no job that it matches has
been running for `expected_within`, however the last one ended, while lines or samples of the cluster arrive. Jobs that
are known only from metrics run while they are sampled. Resolved when a job of the name runs, when one that could not
start ends, and with the cluster; after `removed_after` a job that is not expected was removed on purpose.

Not reported unless expected: jobs that finish, also by stop-with-savepoint; that fail (`job_failed`); that are
cancelled and submitted again, or end with their cluster; a job without checkpoint lines and samples whose JobManager
came back. A job that is RUNNING without slots is `slots_unavailable`. Why it matters: nothing fails, so nothing else
reports it. Reference: Flink Kubernetes operator, condition "Missing"; Confluent, "stuck in PENDING" for 10 min.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias

import msgspec
from pydantic import Field

from detectors.detector import MAX_JOBS, Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.expected_jobs import ExpectedJobs
from detectors.flink.facts import Fact
from detectors.flink.job_runs import SHOWN, STARTING, JobRun, JobRuns
from detectors.incident import Finding, Severity
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration
from detectors.values.name_pattern import Pattern, fits

_View: TypeAlias = "View[JobMissing.Config, JobMissing.State]"


class JobMissing(Detector):
    """Detects jobs that should run and do not."""

    kind = "job_missing"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `job_missing`."""

        ran_for: Duration = threshold(
            300_000, "Time for which a job must have run so that it is missed. Jobs that are tried out run for less."
        )
        redeploy_within: Duration = threshold(
            600_000, "Time after a cancel or after a new JobManager leads in which a job of the same name must run."
        )
        stuck_for: Duration = threshold(300_000, "Longest time of a job in CREATED, INITIALIZING or RECONCILING.")
        expected: Annotated[tuple[Pattern, ...], Field(max_length=50)] = threshold(
            (),
            "Names of jobs that must always run, as globs or ~ and an RE2 expression: at least one job that matches "
            "each of them. The list applies to every cluster, so set it in an override for the clusters concerned.",
        )
        expected_within: Duration = threshold(
            600_000, "Time without a running job that matches an expected name from which it is reported."
        )
        removed_after: Duration = threshold(
            86_400_000, "Time after which a missing job that is not expected counts as removed on purpose."
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id, expected names, and open findings by subject: the job's name or id, or the expected name."""

        runs: JobRuns = msgspec.field(default_factory=JobRuns)
        expected: ExpectedJobs = msgspec.field(default_factory=ExpectedJobs)
        open: dict[str, Finding] = {}

    config: Config

    @on(facts.JobStateChanged)
    def changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        runs, name = self._runs(view), fact.name or view.topology.job_name(fact.job)
        run = runs.state(fact, name, view.time, view.clock, view.record())
        if run is not None and fact.state == "RUNNING":
            self._works(view, run)
        elif run is not None and fact.ended:
            patterns = self._patterns(run.name)
            view.state.expected.ended(run, patterns)
            ran = run.ran(run.time) >= self.config.ran_for
            if patterns or fact.state != "CANCELED" or not ran:
                del runs.by_id[fact.job]
                self._close(view, [run.label], f"the job is {fact.state}")

    @on(facts.JobInitializing)
    def initializing(self, view: _View, fact: facts.JobInitializing) -> None:
        self._runs(view).initializing(fact.job, fact.name, view.time, view.clock, view.record())

    @on(facts.CheckpointCompleted)
    def checkpoint_line(self, view: _View, _: Fact) -> None:
        name = view.topology.job_name(view.job)
        self._works(view, self._runs(view).line(view.job, name, view.time, view.clock, view.record()))

    @on(facts.LeadershipGranted)
    def granted(self, view: _View, _: Fact) -> None:
        self._runs(view).grant(view.time, view.clock, view.record())

    @on("records_in", "completed_checkpoints", "full_restarts", "heap_used", "jm_heap_used", "registered_task_managers")
    def measured(self, view: _View, samples: list[Sample]) -> None:
        runs, record = self._runs(view), view.record()
        of_jobs = {(s.labels["job_id"], s.name == "records_in"): s for s in samples if s.labels.get("job_id")}
        for (job, of_tasks), sample in of_jobs.items():
            name = view.topology.job_name(job) or sample.labels.get("job_name", "")
            self._works(view, runs.sample(job, name, view.time, view.clock, record, runs=of_tasks))

    @on(*facts.PROCESS_ENDS)
    def ended(self, view: _View, end: facts.ProcessEnd) -> None:
        runs = self._runs(view)
        if not end.tms and end.how == "orderly":
            runs.end()
            view.state.expected.ends()
            self._close(view, [*view.state.open], "the cluster has ended")

    def on_deadline(self, view: _View) -> None:
        """Report jobs that are missing, and close those that were removed on purpose."""
        runs, found = view.state.runs, view.state.open
        for run, due in [*self._missing(view)]:
            if view.clock >= due:
                if not runs.others_run(run, view.clock):
                    self._report(view, run.label, run, "warning")
                if run.label not in found or run.state not in STARTING:
                    del runs.by_id[run.job]
        for pattern, last, due in [*self._absent(view)]:
            if view.clock >= due:
                self._report(view, pattern, last, "critical")
        for subject in [s for s, at in self._removals(view).items() if view.clock >= at]:
            runs.forget(subject)
            self._close(view, [subject], "it has not been started again, so it was removed on purpose")

    def next_deadline(self, view: _View) -> int | None:
        """When the first job counts as missing, or as removed."""
        times = [due for _, due in self._missing(view)] + [due for _, _, due in self._absent(view)]
        return min([*times, *self._removals(view).values()], default=None)

    def on_config_change(self, view: _View) -> None:
        """Close findings about names that are not expected any more."""
        gone = [s for s, f in view.state.open.items() if f.severity == "critical" and s not in self.config.expected]
        self._close(view, gone, "the name is not expected any more")

    def _runs(self, view: _View) -> JobRuns:
        if view.state.expected.arrived(view.clock):
            view.state.expected.first = view.record()
        return view.state.runs

    def _patterns(self, name: str) -> list[str]:
        return [pattern for pattern in self.config.expected if name and fits(pattern, name)]

    def _missing(self, view: _View) -> Iterator[tuple[JobRun, int]]:
        state, limits = view.state, self.config
        for run in state.runs.by_id.values():
            if run.line >= state.runs.granted and run.active:
                continue  # Nearly all jobs, nearly always.
            due = state.runs.missing_at(run, limits.ran_for, limits.redeploy_within, limits.stuck_for)
            if due is None or run.label in state.open or self._patterns(run.name):
                continue
            # That nothing is seen of a job proves something only while other data arrives.
            if run.state in SHOWN or state.expected.reports(due):
                yield run, due

    def _absent(self, view: _View) -> Iterator[tuple[str, JobRun | None, int]]:
        for pattern in self.config.expected:
            found = view.state.expected.absent(pattern, view.state.runs, self.config.expected_within)
            if found is not None and pattern not in view.state.open:
                yield pattern, *found

    def _removals(self, view: _View) -> dict[str, int]:
        return {s: f.at + self.config.removed_after for s, f in view.state.open.items() if f.severity == "warning"}

    def _works(self, view: _View, run: JobRun | None) -> None:
        """A job runs, which ends the findings about its name."""
        if run is not None and view.state.open:
            self._close(view, [run.label, run.job, *self._patterns(run.name)], f"job {run.label} runs again")

    def _close(self, view: _View, subjects: Iterable[str], why: str) -> None:
        for subject in subjects:
            if subject in view.state.open:
                view.close(view.state.open.pop(subject), why)

    def _report(self, view: _View, subject: str, run: JobRun | None, severity: Severity) -> None:
        runs, run = view.state.runs, run or JobRun("", subject)
        why = runs.why_missing(run, view.clock) if run.job else "no job of this name has been seen"
        records = [r for r in (runs.record_of(run), view.state.expected.first) if r is not None][:1]
        finding = view.finding(
            subject,
            {"job_id": run.job, "job_name": run.name},
            since=records[0].time if records else view.clock,
            severity=severity,
            summary=f"{'expected ' if severity == 'critical' else ''}job {subject} does not run: {why}",
            confidence="sure" if run.state in SHOWN else "fair",
            evidence=records,
            advice=keep_state(run.job) + "Find out what ended it, then submit it again from its last savepoint or "
            "retained checkpoint (flink run -s PATH): without a path it starts with empty state. If it does not start, "
            "read the JobManager's log since its submission: slots, state to restore, a system that does not answer. "
            "To prevent it: high availability, retained checkpoints.",
        )
        put_bounded(view.state.open, subject, finding, MAX_JOBS)
        view.report(msgspec.structs.replace(finding))
