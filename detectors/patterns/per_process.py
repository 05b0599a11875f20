"""The base of the detectors of exhausted memory and of full disks: one finding for each process.

A checkpoint that completes later resolves it.
"""

from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.names import container_in
from detectors.flink import facts
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import about
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

MAX_TMS = 200
_MAX_RECORDS = 4
_MAX_TIMES = 8
_STEADY = 1.35
_SAME_MS = 1_000
_APART_MS = 60_000

OC = TypeVar("OC", bound="OutOfMemoryConfig")
OS = TypeVar("OS", bound="OutOfMemoryState")


class ProcessRef(NamedTuple):
    """A process by TaskManager id and host. Either is empty if unknown."""

    tm: str
    host: str


class ExhaustedProcess(msgspec.Struct, array_like=True):
    """A process without memory or disk space: event times of the first and last sign, text, records, number."""

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
    """The settings that these detectors share."""

    name_within: Duration = threshold(
        5_000,
        "Time to wait for a line that names the TaskManager if a line names only its host. Without one, the host is "
        "reported.",
    )

    recovered_after: Duration = threshold(
        60_000, "Time after the last sign from which a completed checkpoint resolves the finding."
    )


class OutOfMemoryState(msgspec.Struct, array_like=True):
    """Open findings by process, signs without a TaskManager's name by host, and event times of all first signs.

    `named` is the clock of the last sign that named its TaskManager, `ended` the event time of the last sign of a
    resolved finding.
    """

    open: dict[str, ExhaustedProcess] = {}
    unnamed: dict[str, UnnamedSign] = {}
    times: list[int] = []
    named: int = LONG_AGO
    ended: int = LONG_AGO


class OutOfMemory(Detector):
    """One finding for each process without memory or disk space left, closed by a checkpoint that completes later."""

    Config = OutOfMemoryConfig
    State = OutOfMemoryState
    config: OutOfMemoryConfig

    @on(facts.CheckpointCompleted, needs="open")
    def completed(self, view: View[OC, OS], _: facts.CheckpointCompleted) -> None:
        """Close findings after a completed checkpoint if their last sign is old enough."""
        for key, known in list(view.state.open.items()):
            if view.time >= known.last + self.calm(known):
                del view.state.open[key]
                view.state.ended = max(view.state.ended, known.last)
                why = f"a checkpoint completed {humanize(view.time - known.last)} after the last sign"
                view.close(self.finding(view, known), why)

    def exhausted(self, view: View[OC, OS], at: ProcessRef, text: str) -> None:
        """Take in a sign that a process has none left. The finding keeps the longest `text` of its signs."""
        state = view.state
        if view.time <= state.ended or not (at.tm or at.host):
            return
        if at.tm:
            state.named = view.clock
            state.unnamed.clear()
        elif at.host not in state.open:
            if at.host not in state.unnamed and view.clock > state.named + self.config.name_within:
                put_bounded(state.unnamed, at.host, UnnamedSign(view.clock, view.time, text, view.record()), MAX_TMS)
            return
        self._sign(view, at, text, view.record())

    def on_deadline(self, view: View[OC, OS]) -> None:
        """Report signs for which no line has named the TaskManager in time."""
        for host, sign in list(view.state.unnamed.items()):
            if view.clock >= sign.at + self.config.name_within:
                del view.state.unnamed[host]
                self._sign(view, ProcessRef("", host), sign.text, sign.record)

    def next_deadline(self, view: View[OC, OS]) -> int | None:
        """When the wait of the first such sign ends."""
        return min((sign.at + self.config.name_within for sign in view.state.unnamed.values()), default=None)

    def _sign(self, view: View[OC, OS], at: ProcessRef, text: str, record: Evidence) -> None:
        state, time = view.state, record.time
        known = state.open.get(at.tm or at.host)
        if known is None:
            known = ExhaustedProcess(at.tm, at.host, time, time, text, [record])
            put_bounded(state.open, at.tm or at.host, known, MAX_TMS)
            if not state.times or time > state.times[-1]:
                state.times = [*state.times, time][-_MAX_TIMES:]
            view.report(self.finding(view, known))
            return
        again = time > known.last + _SAME_MS
        known.count += again and not self.ends_process
        known.last = max(known.last, time)
        append_new(known.records, record, _MAX_RECORDS)
        if again or len(text) > len(known.text):
            known.text = max(known.text, text, key=len)
            view.report(self.finding(view, known))

    def finding(self, view: View[OC, OS], known: ExhaustedProcess) -> Finding:
        """Make the finding about one process from the detector's own `summary` and `advice`."""
        job, name = view.topology.only_job()
        often = f", {known.count} times in {humanize(known.last - known.since)}" if known.count > 1 else ""
        return view.finding(
            known.tm or known.host,
            {"tm_id": known.tm, "host": known.host, "job_id": job, "job_name": name},
            since=known.since,
            severity="critical",
            summary=f"{self.summary(known)}{often}{recurrence(view.state.times)}",
            evidence=known.records,
            advice=about(job, self.advice),
        )

    advice = ""
    ends_process = False

    def calm(self, _: ExhaustedProcess) -> int:
        """Return the time in ms after the last sign from which a completed checkpoint resolves the finding."""
        return self.config.recovered_after

    def summary(self, known: ExhaustedProcess) -> str:
        """Return the first part of the summary, without punctuation at its end."""
        raise NotImplementedError


def named(known: ProcessRef | ExhaustedProcess) -> str:
    """Name a process for a message."""
    if not known.tm:
        return f"a process on host {known.host}"
    return f"TaskManager {known.tm}" + (f" on host {known.host}" if known.host and known.host not in known.tm else "")


def process_of_label(topology: Topology, label: str) -> ProcessRef:
    """The TaskManager with this id in metrics."""
    tm = topology.tm_of_label(label)
    return ProcessRef(tm, topology.host_of(tm))


def recurrence(times: list[int]) -> str:
    """Describe how often and how regularly findings have opened; empty before the third."""
    gaps = [b - a for a, b in pairwise(times[-4:]) if b - a > _APART_MS]
    if len(gaps) < 2:
        return ""
    steady = max(gaps) <= _STEADY * min(gaps)
    pace = f"every {humanize(sum(gaps) / len(gaps))}: a constant period points to a leak"
    least = "at least " if len(times) == _MAX_TIMES else ""
    return f"; {least}{len(times)} times so far, {pace if steady else 'not regularly'}"


def writer(view: View[Any, Any], tm: str = "", host: str = "", attempt: str = "") -> ProcessRef:
    """The process whose memory a failing line is about: the TaskManager that it names, or that runs or wrote it.

    A `.out` file does not show which TaskManager it belongs to, so that is derived from the container or the host.
    """
    topology, source, line_host = view.topology, view.event.source, view.event.host
    if tm:
        return ProcessRef(tm, host or topology.host_of(tm))
    tm = topology.tm_of_source.get(source, "") or container_in(source)
    if not tm and attempt:
        _, tm, host = topology.place_of(attempt)
        if tm or host:
            return ProcessRef(tm, host)
    if not tm:
        mine = [t for t, known in topology.tms.items() if line_host and line_host in (t, known.host)]
        tm = mine[-1] if mine and (len(mine) == 1 or source not in topology.job_of_source) else ""
    return ProcessRef(tm, topology.host_of(tm) or line_host)
