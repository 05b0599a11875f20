"""Findings of incidents that a person has ended: they count again only with new evidence.

A detector does not know that its finding was ended. It may report it again because time passes, which proves nothing.
"""

from collections.abc import Iterable

import msgspec

from detectors.incident import Evidence, Finding, Transition
from detectors.values.bounded import put_bounded

_MAX_FINDINGS = 500

Offsets = dict[str, int]
"""The last offset of each partition that was known when an incident was ended."""


class EndedFindings(msgspec.Struct):
    """By kind and subject."""

    known: dict[str, Offsets] = {}

    def end(self, findings: Iterable[Finding], more: Iterable[tuple[str, str]] = ()) -> None:
        """Keep what an incident has shown; `more` are its findings of which only kind and subject are known."""
        of_incident = [*findings]
        offsets: Offsets = {}
        for record in (one for finding in of_incident for one in finding.evidence):
            offsets[_partition(record)] = max(record.offset, offsets.get(_partition(record), -1))
        for kind, subject in [*((f.kind, f.subject) for f in of_incident), *more]:
            put_bounded(self.known, _key(kind, subject), offsets, _MAX_FINDINGS)

    def renewed(self, finding: Finding) -> Finding | None:
        """A finding that counts, or None. With new evidence, one that was ended begins when it is reported again."""
        key = _key(finding.kind, finding.subject)
        offsets = self.known.get(key)
        if offsets is None:
            return finding
        if finding.closed_at is not None:
            del self.known[key]
            return finding
        if any(record.offset > offsets.get(_partition(record), -1) for record in finding.evidence):
            del self.known[key]
            return msgspec.structs.replace(finding, since=max(finding.since, finding.at))
        return None


def ended(findings: Iterable[Finding], because: str, at: int) -> list[Finding]:
    """The findings; those that were open have ended at `at`."""
    return [
        f if f.closed_at is not None else msgspec.structs.replace(f, at=at, closed_at=at, closed_because=because)
        for f in findings
    ]


def end_forgotten(last: Transition, because: str, now: int) -> Transition:
    """The end of an incident of which only the newest transition is known, because its state was forgotten."""
    at = max(now, last.at)
    return msgspec.structs.replace(
        last,
        seq=last.seq + 1,
        transition="resolved",
        at=at,
        ended_at=at,
        reason=because,
        findings=ended(last.findings, because, at),
        forecast=None,
    )


def _key(kind: str, subject: str) -> str:
    return f"{kind}\0{subject}"


def _partition(record: Evidence) -> str:
    return f"{record.topic}/{record.partition}"
