"""Which jobs of a cluster run, by id, as log lines and metrics show it.

A line shows a job's state until another line changes it, or until a JobManager leads that has not named the job since:
then only newer lines or samples show that the job still runs. A sample shows it for a few scrapes.
"""

import msgspec

from detectors.events.names import filtered
from detectors.flink.facts import JobStateChanged
from detectors.flink.job_states import ACTIVE, ENDED
from detectors.incident import Evidence
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, roughly

FRESH_MS = 180_000
"""How long one sample or line shows that its source is there: three scrapes of a minute."""
STARTING = frozenset({"CREATED", "INITIALIZING", "RECONCILING"})
"""The job has been accepted and does not run yet."""
SHOWN = STARTING | {"CANCELED"}
"""States in which a line shows that a job does not run. Others are missed because nothing is seen of them."""
_MAX_JOBS = 200
_LEAST_SIGNS = 3
_TOGETHER_MS = 5_000


class JobRun(msgspec.Struct, array_like=True):
    """One job by its id. `state` is Flink's, empty if no line has shown it, since `time` (event time) or `at` (clock).

    `began` is the event time since when it is active (LONG_AGO: it is not). `line` is the event time of its last line,
    `seen` the clock of its last line or sample, `record` the last one while it was active or the line of its state.
    `signs` counts lines and samples while it was active, the last at `sign`: if there were several, their absence means
    something. A record that is read twice is one sign.
    """

    job: str
    name: str = ""
    state: str = ""
    time: int = LONG_AGO
    at: int = 0
    began: int = LONG_AGO
    line: int = LONG_AGO
    seen: int = LONG_AGO
    signs: int = 0
    record: Evidence | None = None
    sign: int = LONG_AGO

    @property
    def label(self) -> str:
        return self.name or self.job

    def ran(self, until: int) -> int:
        """For how long it has been active until an event time, in ms; -1 if it was not."""
        return until - self.began if self.began > LONG_AGO else -1

    @property
    def active(self) -> bool:
        """Whether it is active unless a JobManager has been granted leadership since."""
        return self.state in ACTIVE or (not self.state and self.signs > 0)


class JobRuns(msgspec.Struct, array_like=True):
    """Jobs by id. `granted` is the event time of the last grant of leadership, `granted_at` its clock."""

    by_id: dict[str, JobRun] = {}
    granted: int = LONG_AGO
    granted_at: int = LONG_AGO
    record: Evidence | None = None

    def run(self, job: str) -> JobRun:
        """A job, added if it is new."""
        run = self.by_id.get(job)
        if run is None:
            run = JobRun(job)
            put_bounded(self.by_id, job, run, _MAX_JOBS)
        return run

    def state(self, fact: JobStateChanged, name: str, time: int, clock: int, record: Evidence) -> JobRun | None:
        """Take in a job's state. Returns the job if the line is not older than what is known."""
        run = self.run(fact.job)
        run.name = name or run.name
        if time < run.time:
            return None
        run.line, run.seen = max(run.line, time), clock
        if run.state in ENDED and not fact.ended:
            run.began = LONG_AGO
        if run.state != fact.state:
            run.state, run.time, run.at, run.record = fact.state, time, clock, record
        if fact.state == "RUNNING" and run.began == LONG_AGO:
            run.began = time
        return run

    def initializing(self, job: str, name: str, time: int, clock: int, record: Evidence) -> None:
        """A JobManager begins with a job. One that ran under this id before it failed over still has run since then."""
        run = self.run(job)
        if time > max(run.time, run.line):
            run.began = LONG_AGO if run.state in ENDED else run.began
            run.name, run.state, run.time, run.at, run.record = name, "INITIALIZING", time, clock, record
            run.line = time

    def line(self, job: str, name: str, time: int, clock: int, record: Evidence) -> JobRun | None:
        """Take in a line that only an active job has. Returns the job, None if the line is outdated."""
        run = self.run(job)
        if time <= run.time:
            return None
        run.name, run.line = name or run.name, max(run.line, time)
        return self._sign(run, time, clock, record)

    def sample(self, job: str, name: str, time: int, clock: int, record: Evidence, *, runs: bool) -> JobRun | None:
        """Take in a sample. The JobManager also exports metrics of jobs that do not run; `runs`: those of tasks."""
        run = self.run(job)
        if time <= run.time or run.state in ENDED or (run.state in STARTING and not runs):
            return None
        # The name in a line is the name itself, that of a sample may have underscores in the place of other characters.
        run.name = run.name or name
        return self._sign(run, time, clock, record)

    def _sign(self, run: JobRun, time: int, clock: int, record: Evidence) -> JobRun | None:
        if run.state in ENDED:
            return None
        if run.state in STARTING:
            run.state, run.time, run.at = "RUNNING", time, clock
        run.began = time if run.began == LONG_AGO else run.began
        if time > run.sign:
            run.sign, run.signs = time, min(run.signs + 1, _LEAST_SIGNS)
        run.seen, run.record = max(run.seen, clock), record
        return run

    def grant(self, time: int, clock: int, record: Evidence) -> None:
        """A JobManager leads from now on."""
        if time > self.granted:
            self.granted, self.granted_at, self.record = time, clock, record

    def superseded(self, run: JobRun) -> bool:
        """Whether a JobManager leads that has not named the job."""
        # The ResourceManager may be granted leadership after the Dispatcher has already recovered its jobs.
        return max(run.line, run.began) < self.granted - _TOGETHER_MS

    def named(self, run: JobRun) -> bool:
        """Whether lines show that a job runs, or will run again without an operator, until another line."""
        return run.active and run.line > LONG_AGO and not self.superseded(run)

    def runs(self, run: JobRun, clock: int) -> bool:
        """Whether a job runs now."""
        return self.named(run) or (run.active and clock - run.seen <= FRESH_MS)

    def seen(self, run: JobRun) -> int:
        """The clock at which a job that no line shows to run was last known to; LONG_AGO if it never was."""
        if run.active:
            return max(run.seen, self.granted_at if self.superseded(run) else LONG_AGO)
        return run.at if run.began > LONG_AGO else LONG_AGO

    def missing_at(self, run: JobRun, ran_for: int, redeploy_within: int, stuck_for: int) -> int | None:
        """The clock at which a job counts as missing. Ended jobs are kept only if they were cancelled after a while."""
        if run.state in STARTING:
            return run.at + stuck_for
        if run.state == "CANCELED":
            return run.at + redeploy_within
        regular = run.active and run.signs >= _LEAST_SIGNS
        if self.superseded(run) and run.ran(self.granted) >= ran_for and (regular or run.state == "SUSPENDED"):
            return max(run.seen, self.granted_at) + redeploy_within
        return None

    def record_of(self, run: JobRun) -> Evidence | None:
        """The record that shows why a job does not run."""
        return self.record if self.superseded(run) and run.state not in SHOWN else run.record

    def why_missing(self, run: JobRun, clock: int) -> str:
        """Why a job does not run, in words."""
        if run.state in STARTING:
            return f"it has been {run.state} for {roughly(clock - run.at)}"
        if run.state in ENDED:
            return f"it was {run.state} {roughly(clock - run.at)} ago"
        if self.superseded(run):
            return f"a JobManager leads again since {roughly(clock - self.granted_at)}, and has not started it"
        return f"its metrics stopped {roughly(clock - run.seen)} ago"

    def others_run(self, run: JobRun, clock: int) -> bool:
        """Whether another job of the same name runs."""
        name = filtered(run.name)
        same = (o for o in self.by_id.values() if name and o.job != run.job and filtered(o.name) == name)
        return any(self.runs(other, clock) for other in same)

    def forget(self, label: str) -> None:
        """Drop the jobs of a name, or the job of an id without a name."""
        self.by_id = {job: run for job, run in self.by_id.items() if run.label != label}

    def end(self) -> None:
        """The cluster has ended: jobs that did not run then are not missing. Others may be when it is back."""
        self.by_id = {job: run for job, run in self.by_id.items() if run.active or run.state == "SUSPENDED"}
