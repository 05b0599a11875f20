"""Restarts of jobs, and what each was caused by, from lines that may not name the job.

Until Flink 1.9 a region is restarted without any line about the job's state, and the adaptive scheduler cancels instead
of restarting: both are known from `tasks should be restarted`, `Restarting job.` and what follows in the same log.
"""

from collections.abc import Callable

import msgspec

from detectors.flink.facts import JobStateChanged
from detectors.flink.root_causes import RootCause
from detectors.incident import Evidence
from detectors.values.bounded import put_bounded

_MAX_SOURCES = 50
_FAILOVER_MS = 1_000


class Failover(msgspec.Struct, array_like=True):
    """A line that tasks are to be restarted: event time, clock, record and cause; `job` is empty if it names none.

    `cancels`: the job is cancelled and started again (adaptive scheduler).
    """

    time: int
    at: int
    record: Evidence
    fault: RootCause | None
    cancels: bool = False
    job: str = ""


class Failovers(msgspec.Struct, array_like=True):
    """Failovers by source that no other line has explained yet. `names_job` are sources that log a job's RESTARTING."""

    waiting: dict[str, Failover] = {}
    names_job: dict[str, bool] = {}

    def repeated(self, source: str, time: int) -> bool:
        """Whether a line at this time is one more of the last failover: it comes once for each failing task."""
        known = self.waiting.get(source)
        return known is not None and source not in self.names_job and time - known.time < _FAILOVER_MS

    def begin(self, source: str, failover: Failover) -> Failover | None:
        """Take in a failover. Returns the earlier one if it was a restart that no other line shows."""
        before = self._unshown(source)
        put_bounded(self.waiting, source, failover, _MAX_SOURCES)
        return before

    def restored(self, source: str, time: int) -> Failover | None:
        """A job of this log was restored. Returns the failover that this completes."""
        failover = self._unshown(source)
        if failover is None or time <= failover.time:
            return None
        return self.waiting.pop(source)

    def restarting(self, source: str, fact: JobStateChanged) -> bool:
        """Whether this state of a job shows a restart."""
        failover = self.waiting.get(source)
        cancelled = failover is not None and failover.cancels and fact.state in ("CANCELLING", "CANCELED", "RESTARTING")
        if not fact.before or not (fact.state == "RESTARTING" or (cancelled and fact.state == "CANCELLING")):
            return False
        if not cancelled:
            put_bounded(self.names_job, source, True, _MAX_SOURCES)
        return True

    def unnamed(self, due: Callable[[Failover], bool]) -> list[Failover]:
        """Failovers whose job no line has named in time, without those that are shown otherwise."""
        late = [source for source, failover in self.waiting.items() if due(failover)]
        unshown = [self._unshown(source) for source in late]
        for source in late:
            del self.waiting[source]
        return [failover for failover in unshown if failover is not None]

    def _unshown(self, source: str) -> Failover | None:
        failover = self.waiting.get(source)
        return None if failover is None or failover.cancels or source in self.names_job else failover
