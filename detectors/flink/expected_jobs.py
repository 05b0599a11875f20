"""Names of jobs that must always run, and whether one that matches each of them does."""

import msgspec

from detectors.flink.job_runs import FRESH_MS, JobRun, JobRuns
from detectors.incident import Evidence
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO
from detectors.values.name_pattern import fits

_MAX_PATTERNS = 50


class ExpectedJobs(msgspec.Struct, array_like=True):
    """The last job of each expected name that has ended, by pattern, and since when the cluster reports.

    `since` and `latest` are the clock of the first and of the last line or sample, without a long gap between them.
    """

    last: dict[str, JobRun] = {}
    since: int = LONG_AGO
    latest: int = LONG_AGO
    first: Evidence | None = None

    def arrived(self, clock: int) -> bool:
        """A line or sample of the cluster has arrived. Returns whether it is the first one, or after a long gap."""
        first = clock - self.latest > FRESH_MS
        self.since = clock if first else self.since
        self.latest = max(self.latest, clock)
        return first

    def reports(self, due: int) -> bool:
        """Whether the cluster still reported when something was due, so that the absence of a job means something."""
        return due <= self.latest + FRESH_MS

    def ends(self) -> None:
        """The cluster has ended. Whatever arrives later is the first."""
        self.latest = LONG_AGO

    def ended(self, run: JobRun, patterns: list[str]) -> None:
        """A job has ended that these patterns match."""
        for pattern in patterns:
            # The dispatcher's line about the same end comes after the job has been forgotten.
            if run.began > LONG_AGO or pattern not in self.last:
                put_bounded(self.last, pattern, msgspec.structs.replace(run), _MAX_PATTERNS)

    def absent(self, pattern: str, runs: JobRuns, within: int) -> tuple[JobRun | None, int] | None:
        """The last job that a pattern matches, and the clock from which it counts as missing; None if it does not.

        A pattern that has matched nothing yet is not judged while a job runs whose name nothing has shown.
        """
        known = [run for run in runs.by_id.values() if run.name and fits(pattern, run.name)]
        if pattern in self.last:
            known.append(self.last[pattern])
        if any(runs.named(run) for run in known):
            return None
        if not known and any(run.active and not run.name for run in runs.by_id.values()):
            return None
        last = max(known, key=lambda run: (runs.seen(run), run.at, run.job), default=None)
        due = max(self.since, runs.seen(last) if last is not None else LONG_AGO) + within
        return (last, due) if self.latest > LONG_AGO and self.reports(due) else None
