"""Findings about a job or a process that is no more: they end by proof of another kind.

A finding ends when its own subject is seen well again. When the JobManager died and its job came back under another id,
or the TaskManager was replaced, nobody will ever speak of that subject again. What proves the end then is a checkpoint
of the job as it runs now: the JobManager was started anew and has not spoken of the old job since, or the TaskManager
left. Each kind declares which of the two it belongs to (`Detector.belongs_to`). A leak does not end with its process:
it goes on in the next one.
"""

from collections.abc import Iterator

import msgspec

from detectors import DETECTORS
from detectors.events.event import LogEvent
from detectors.events.vocabulary.metric_names import filtered
from detectors.flink.topology import Topology
from detectors.incident import Finding
from detectors.incidents.transitions import Incident
from detectors.values.bounded import put_bounded

_OWNERS = {detector.kind: detector.belongs_to for detector in DETECTORS}
_SETTLED_MS = 60_000
_SILENT_MS = 600_000
_MAX_TMS = 200
_MAX_JOBS = 200


class OrphanedFindings(msgspec.Struct, array_like=True):
    """Clock times: when a JobManager started last, when TaskManagers left, when jobs were heard while one is open."""

    started: int = -1
    tms: dict[str, int] = {}
    heard: dict[str, int] = {}

    def update(self, event: LogEvent, clock: int, incidents: list[Incident], topology: Topology) -> Iterator[Finding]:
        """Take in one line; the findings that end by it, closed."""
        match event.event_type:
            case "process_version":
                if "Entrypoint" in event.fields["what"] or "JobManager" in event.fields["what"]:
                    self.started = clock
            case "tm_closed" | "tm_unreachable" | "tm_timed_out":
                tm = filtered(event.fields["tm"])
                put_bounded(self.tms, tm, self.tms.get(tm, clock), _MAX_TMS)
            case "tm_registered":
                self.tms.pop(filtered(event.fields["tm"]), None)
        if not incidents:
            self.heard.clear()
            return
        job = event.fields.get("job")
        if job is not None:
            put_bounded(self.heard, job, clock, _MAX_JOBS)
        if event.event_type == "checkpoint_completed":
            yield from self._ended(topology.job_of(event), event.fields["checkpoint"], clock, incidents, topology)

    def _ended(
        self, job: str, checkpoint: str, clock: int, incidents: list[Incident], topology: Topology
    ) -> Iterator[Finding]:
        for finding in [f for i in incidents if i.resolved_at is None for f in i.findings if f.closed_at is None]:
            owner = _OWNERS.get(finding.kind)
            if owner == "job" and self._job_gone(finding, job, clock, topology):
                name = topology.job_name(job) or job
                why = f"job {name} runs under another id and has completed checkpoint {checkpoint}"
            elif owner == "process" and self._process_gone(finding, job, clock):
                why = f"its TaskManager is gone and checkpoint {checkpoint} has completed without it"
            else:
                continue
            yield msgspec.structs.replace(finding, at=clock, closed_at=clock, closed_because=why)

    def _job_gone(self, finding: Finding, job: str, clock: int, topology: Topology) -> bool:
        old = finding.entity.get("job_id", "")
        if not old or old == job:
            return False
        heard = self.heard.get(old, finding.at)
        if finding.since < self.started <= clock - _SETTLED_MS and (
            heard < self.started or clock - heard >= _SILENT_MS
        ):
            return True
        name, known = topology.job_name(old), topology.jobs.get(job)
        again = known is not None and name and known.name == name and known.since > heard
        return bool(again and clock - heard >= _SILENT_MS)

    def _process_gone(self, finding: Finding, job: str, clock: int) -> bool:
        left = self.tms.get(filtered(finding.entity.get("tm_id", "")))
        return (
            left is not None
            and max(left, finding.at) <= clock - _SETTLED_MS
            and finding.entity.get("job_id", "") in ("", job)
        )
