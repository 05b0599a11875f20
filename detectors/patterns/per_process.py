"""What the three detectors of exhausted memory share: one finding for each process, ended by the same proof."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink.root_causes import only_job
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import about
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

MAX_TMS = 200
_MAX_RECORDS = 4
_MAX_TIMES = 8
_STEADY = 1.35
_SAME_MS = 1_000
_APART_MS = 60_000
_CONTAINER = re.compile(r"container_(?:e\d+_)?\d+_\d+_\d+_\d+")


class ProcessRef(NamedTuple):
    """A process by TaskManager id and host, either of them empty when unknown."""

    tm: str
    host: str


class ExhaustedProcess(msgspec.Struct, array_like=True):
    """A process out of memory: event times of the first and the last sign, how often, its words, and the records."""

    tm: str
    host: str
    since: int
    last: int
    text: str
    records: list[Evidence]
    count: int = 1


class UnnamedSign(msgspec.Struct, array_like=True):
    """A sign that names a host alone: a TaskManager's own log and the JobManager's tell the same failure."""

    at: int
    time: int
    text: str
    record: Evidence


class OutOfMemoryConfig(DetectorConfig):
    """What each of them can be told."""

    name_within: Duration = Field(
        5_000, description="Wait this long for the line that names the TaskManager when one names only the host."
    )

    recovered_after: Duration = Field(
        60_000, description="A checkpoint that completes this long after the last sign ends it: the job does without."
    )


class OutOfMemoryState(msgspec.Struct, array_like=True):
    """Open findings by process, signs by host that wait for a name, event times of all first signs.

    `named` is the clock of the last sign that named its TaskManager, `ended` the event time of the last that is over.
    """

    open: dict[str, ExhaustedProcess] = {}
    unnamed: dict[str, UnnamedSign] = {}
    times: list[int] = []
    named: int = -(1 << 62)
    ended: int = -(1 << 62)


class OutOfMemory(Detector):
    """See the module."""

    Config = OutOfMemoryConfig
    State = OutOfMemoryState
    config: OutOfMemoryConfig

    def say(
        self, state: OutOfMemoryState, at: ProcessRef, text: str, event: LogEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        """A sign that the memory of a process is exhausted; `text` says how, of one finding the longest counts."""
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

    def expire(self, state: OutOfMemoryState, now: int, topology: Topology) -> Iterator[Finding]:
        """Signs that no line has given a name."""
        for host, sign in list(state.unnamed.items()):
            if now >= sign.at + self.config.name_within:
                del state.unnamed[host]
                yield from self._sign(
                    state, ProcessRef("", host), sign.text, sign.record, Now(now, sign.time), topology
                )

    def due(self, state: OutOfMemoryState) -> int | None:
        """When the first of them has waited long enough."""
        return min((sign.at + self.config.name_within for sign in state.unnamed.values()), default=None)

    def _sign(
        self, state: OutOfMemoryState, at: ProcessRef, text: str, record: Evidence, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        known = state.open.get(at.tm or at.host)
        if known is None:
            known = ExhaustedProcess(at.tm, at.host, now.time, now.time, text, [record])
            put_bounded(state.open, at.tm or at.host, known, MAX_TMS)
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
        """A checkpoint has completed: all that was said long enough before is over."""
        for key, known in list(state.open.items()):
            if now.time >= known.last + self.config.recovered_after:
                del state.open[key]
                state.ended = max(state.ended, known.last)
                finding = self.finding(state, known, now.clock, topology)
                finding.closed_at = now.clock
                finding.closed_because = f"checkpoints complete {humanize(now.time - known.last)} after it"
                yield finding

    def finding(self, state: OutOfMemoryState, known: ExhaustedProcess, now: int, topology: Topology) -> Finding:
        """What is said of one process; `summary` and `advice` are each detector's own."""
        job, name = only_job(topology)
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

    advice = ""
    ends_process = False

    def summary(self, known: ExhaustedProcess) -> str:
        """One sentence without its end."""
        raise NotImplementedError


def named(known: ExhaustedProcess) -> str:
    """The process, as one speaks of it."""
    if not known.tm:
        return f"a process on host {known.host}"
    return f"TaskManager {known.tm}" + (f" on host {known.host}" if known.host and known.host not in known.tm else "")


def recurrence(times: list[int]) -> str:
    """What the distances of the last three first signs tell."""
    gaps = [b - a for a, b in pairwise(times[-4:]) if b - a > _APART_MS]
    if len(gaps) < 2:
        return ""
    steady = max(gaps) <= _STEADY * min(gaps)
    pace = f"every {humanize(sum(gaps) / len(gaps))}: a constant period is the sign of a leak"
    return f"; {len(times)} times so far, {pace if steady else 'not regularly'}"


def writer(event: LogEvent, topology: Topology) -> ProcessRef:
    """Whose memory a failing line is about: the TaskManager it names, runs on, or that wrote it.

    `.out` files are other sources than the log that says which TaskManager it is: known by container or host.
    """
    fields = event.fields
    if fields.get("tm"):
        return ProcessRef(fields["tm"], fields.get("host", "") or topology.host_of(fields["tm"]))
    tm = topology.tm_of_source.get(event.source, "")
    if not tm and (found := _CONTAINER.search(event.source)) is not None:
        tm = found[0]
    if not tm and fields.get("attempt"):
        _, tm, host = topology.place_of(fields["attempt"])
        if tm or host:
            return ProcessRef(tm, host)
    if not tm:
        mine = [t for t, known in topology.tms.items() if event.host and event.host in (t, known.host)]
        tm = mine[-1] if mine and (len(mine) == 1 or event.source not in topology.job_of_source) else ""
    return ProcessRef(tm, topology.host_of(tm) or event.host)
