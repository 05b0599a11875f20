"""Closes findings about a job ID or a process that no longer exists.

A finding normally closes when its own subject has recovered. If the JobManager died and the job came back under another
ID, or the TaskManager was replaced, no further record will mention that subject. The proof is then a completed
checkpoint of the job as it runs now, after a restart of the JobManager that no longer logs the old ID, or after the
TaskManager left. Each kind declares its owner: a leak does not end with its process, it continues in the next one.
"""

from collections.abc import Iterator

import msgspec

from detectors import DETECTORS
from detectors.events.event import LogEvent
from detectors.events.names import filtered
from detectors.flink.facts import (
    CheckpointCompleted,
    Fact,
    ProcessStarted,
    TaskManagerDisconnected,
    TaskManagerGone,
    TaskManagerRegistered,
)
from detectors.flink.topology import Topology
from detectors.incident import Finding
from detectors.incidents.transitions import Incident
from detectors.values.bounded import put_bounded

_OWNERS = {detector.kind: detector.belongs_to for detector in DETECTORS}
_SETTLED_MS = 60_000
_SILENT_MS = 600_000
_MOST = 200


class OrphanedFindings(msgspec.Struct, array_like=True):
    """Clock times: the last start of a JobManager, the end of TaskManagers, the last line of each job.

    Lines of jobs are noted only while an incident is open.
    """

    started: int = -1
    tms: dict[str, int] = {}
    last_seen: dict[str, int] = {}

    def update(
        self, event: LogEvent, fact: Fact | None, clock: int, incidents: list[Incident], topology: Topology
    ) -> Iterator[Finding]:
        """Take in one line and its fact; yields the findings that it closes."""
        match fact:
            case ProcessStarted():
                if "Entrypoint" in fact.what or "JobManager" in fact.what:
                    self.started = clock
            case TaskManagerGone() | TaskManagerDisconnected():
                for tm in map(filtered, fact.tms):
                    put_bounded(self.tms, tm, self.tms.get(tm, clock), _MOST)
            case TaskManagerRegistered():
                self.tms.pop(filtered(fact.tm), None)
        if not incidents:
            self.last_seen.clear()
            return
        job = event.fields.get("job")
        if job is not None:
            put_bounded(self.last_seen, job, clock, _MOST)
        if isinstance(fact, CheckpointCompleted):
            yield from self._ended(topology.job_of(event), fact.number, clock, incidents, topology)

    def _ended(
        self, job: str, checkpoint: int, clock: int, incidents: list[Incident], topology: Topology
    ) -> Iterator[Finding]:
        for finding in [f for i in incidents if i.resolved_at is None for f in i.findings if f.closed_at is None]:
            owner = _OWNERS.get(finding.kind)
            if owner == "job" and self._job_gone(finding, job, clock, topology):
                name = topology.job_name(job) or job
                why = f"job {name} now runs under another ID and completed checkpoint {checkpoint}"
            elif owner == "process" and self._process_gone(finding, job, clock):
                why = f"the TaskManager is gone and checkpoint {checkpoint} completed without it"
            else:
                continue
            yield msgspec.structs.replace(finding, at=clock, closed_at=clock, closed_because=why)

    def _job_gone(self, finding: Finding, job: str, clock: int, topology: Topology) -> bool:
        old = finding.entity.get("job_id", "")
        if not old or old == job:
            return False
        seen = self.last_seen.get(old, finding.at)
        if finding.since < self.started <= clock - _SETTLED_MS and (seen < self.started or clock - seen >= _SILENT_MS):
            return True
        name, known = topology.job_name(old), topology.jobs.get(job)
        again = known is not None and name and known.name == name and known.since > seen
        return bool(again and clock - seen >= _SILENT_MS)

    def _process_gone(self, finding: Finding, job: str, clock: int) -> bool:
        left = self.tms.get(filtered(finding.entity.get("tm_id", "")))
        return (
            left is not None
            and max(left, finding.at) <= clock - _SETTLED_MS
            and finding.entity.get("job_id", "") in ("", job)
        )
