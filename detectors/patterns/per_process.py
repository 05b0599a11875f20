"""The base of the three detectors of exhausted memory: one finding for each process, resolved by a later checkpoint."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.events.names import container_in
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import about
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

MAX_TMS = 200
_MAX_RECORDS = 4
_MAX_TIMES = 8
_STEADY = 1.35
_SAME_MS = 1_000
_APART_MS = 60_000


class ProcessRef(NamedTuple):
    """A process by TaskManager id and host. Either is empty if unknown."""

    tm: str
    host: str


class ExhaustedProcess(msgspec.Struct, array_like=True):
    """A process without memory left: event times of the first and last sign, their text, records and number."""

    tm: str
    host: str
    since: int
    last: int
    text: str
    records: list[Evidence]
    count: int = 1


class UnnamedSign(msgspec.Struct, array_like=True):
    """A sign that names only a host. Another log may have a line about the same failure that names the TaskManager."""

    at: int
    time: int
    text: str
    record: Evidence


class OutOfMemoryConfig(DetectorConfig):
    name_within: Duration = Field(
        5_000, description="Time to wait for a line that names the TaskManager if a line names only the host."
    )

    recovered_after: Duration = Field(
        60_000, description="Time after the last sign from which a completed checkpoint resolves the finding."
    )


class OutOfMemoryState(msgspec.Struct, array_like=True):
    """Open findings by process, signs without a TaskManager's name by host, and event times of all first signs.

    `named` is the clock of the last sign that named its TaskManager, `ended` the event time of a resolved one's last.
    """

    open: dict[str, ExhaustedProcess] = {}
    unnamed: dict[str, UnnamedSign] = {}
    times: list[int] = []
    named: int = LONG_AGO
    ended: int = LONG_AGO


class OutOfMemory(Detector):
    """One finding for each process without memory left, closed by a checkpoint that completes later."""

    Config = OutOfMemoryConfig
    State = OutOfMemoryState
    config: OutOfMemoryConfig
    advice = ""
    ends_process = False

    def report(
        self, state: OutOfMemoryState, at: ProcessRef, text: str, event: LogEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        """Take in a sign that a process has no memory left. The finding keeps the longest `text` of its signs."""
        if now.time <= state.ended or not (at.tm or at.host):
            return
        record = evidence(event, now.time)
        if at.tm:
            state.named = now.clock
            state.unnamed.clear()
        elif at.host not in state.open:
            if at.host not in state.unnamed and now.clock > state.named + self.config.name_within:
                put_bounded(state.unnamed, at.host, UnnamedSign(now.clock, now.time, text, record), MAX_TMS)
            return
        yield from self._sign(state, at, text, record, now, topology)

    def on_deadline(self, state: OutOfMemoryState, now: int, topology: Topology) -> Iterator[Finding]:
        """Report signs for which no line has named the TaskManager in time."""
        for host, sign in list(state.unnamed.items()):
            if now >= sign.at + self.config.name_within:
                del state.unnamed[host]
                at = ProcessRef("", host)
                yield from self._sign(state, at, sign.text, sign.record, Now(now, sign.time), topology)

    def next_deadline(self, state: OutOfMemoryState) -> int | None:
        return min((sign.at + self.config.name_within for sign in state.unnamed.values()), default=None)

    def _sign(
        self, state: OutOfMemoryState, at: ProcessRef, text: str, record: Evidence, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        key = at.tm or at.host
        known = state.open.get(key)
        if known is None:
            known = ExhaustedProcess(at.tm, at.host, now.time, now.time, text, [record])
            put_bounded(state.open, key, known, MAX_TMS)
            if not state.times or now.time > state.times[-1]:
                state.times = [*state.times, now.time][-_MAX_TIMES:]
            yield self.finding(state, known, now.clock, topology)
            return
        again = now.time > known.last + _SAME_MS
        known.count += again and not self.ends_process
        known.last = max(known.last, now.time)
        if record not in known.records and len(known.records) < _MAX_RECORDS:
            known.records.append(record)
        if again or len(text) > len(known.text):
            known.text = max(known.text, text, key=len)
            yield self.finding(state, known, now.clock, topology)

    def recovered(self, state: OutOfMemoryState, now: Now, topology: Topology) -> Iterator[Finding]:
        """Close findings after a completed checkpoint if their last sign is old enough."""
        for key, known in list(state.open.items()):
            if now.time >= known.last + self.config.recovered_after:
                del state.open[key]
                state.ended = max(state.ended, known.last)
                finding = self.finding(state, known, now.clock, topology)
                finding.closed_at = now.clock
                finding.closed_because = f"a checkpoint completed {humanize(now.time - known.last)} after the last sign"
                yield finding

    def finding(self, state: OutOfMemoryState, known: ExhaustedProcess, now: int, topology: Topology) -> Finding:
        job, name = topology.only_job()
        often = f", {known.count} times in {humanize(known.last - known.since)}" if known.count > 1 else ""
        return Finding(
            kind=self.kind,
            subject=known.tm or known.host,
            entity={"tm_id": known.tm, "host": known.host, "job_id": job, "job_name": name},
            since=known.since,
            at=now,
            severity="critical",
            summary=f"{self.summary(known)}{often}{recurrence(state.times)}",
            confidence="sure",
            evidence=list(known.records),
            advice=about(job, self.advice),
        )

    def summary(self, known: ExhaustedProcess) -> str:
        """The first part of the summary, without punctuation at its end."""
        raise NotImplementedError


def named(known: ExhaustedProcess) -> str:
    if not known.tm:
        return f"a process on host {known.host}"
    return f"TaskManager {known.tm}" + (f" on host {known.host}" if known.host and known.host not in known.tm else "")


def recurrence(times: list[int]) -> str:
    """Describe how often and how regularly findings have opened; empty before the third."""
    gaps = [b - a for a, b in pairwise(times[-4:]) if b - a > _APART_MS]
    if len(gaps) < 2:
        return ""
    steady = max(gaps) <= _STEADY * min(gaps)
    pace = f"every {humanize(sum(gaps) / len(gaps))}: a constant period points to a leak"
    return f"; {len(times)} times so far, {pace if steady else 'not regularly'}"


def writer(event: LogEvent, topology: Topology) -> ProcessRef:
    """The process whose memory a failing line is about: the TaskManager that it names, or that runs or wrote it.

    A `.out` file does not show which TaskManager it belongs to, so that is derived from the container or the host.
    """
    fields = event.fields
    if fields.get("tm"):
        return ProcessRef(fields["tm"], fields.get("host", "") or topology.host_of(fields["tm"]))
    tm = topology.tm_of_source.get(event.source) or container_in(event.source)
    if not tm and fields.get("attempt"):
        _, tm, host = topology.place_of(fields["attempt"])
        if tm or host:
            return ProcessRef(tm, host)
    if not tm:
        mine = [t for t, known in topology.tms.items() if event.host and event.host in (t, known.host)]
        tm = mine[-1] if mine and (len(mine) == 1 or event.source not in topology.job_of_source) else ""
    return ProcessRef(tm, topology.host_of(tm) or event.host)
