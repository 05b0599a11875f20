"""One exhausted heap, of a TaskManager or of a JobManager: its signs, and how sure and how severe they make it."""

from typing import NamedTuple

import msgspec

from detectors.events.event import Event, Sample
from detectors.events.names import OF_JOBMANAGER, filtered, short
from detectors.incident import Confidence, Evidence, Severity

_MAX_RECORDS = 4
_ORDER: tuple[Confidence, ...] = ("learning", "fair", "sure")


class Symptom(NamedTuple):
    """One sign of a full heap. `time` is its event time, `label` the process in metrics (`label_of`)."""

    text: str
    severity: Severity
    confidence: Confidence
    time: int
    record: Evidence | None
    label: str = ""


class ExhaustedHeap(msgspec.Struct, array_like=True):
    """The open finding about one process (`label` in metrics), with the event times of its first and last sign."""

    tm: str
    host: str
    label: str
    since: int
    last: int
    text: str
    severity: Severity
    confidence: Confidence
    records: list[Evidence]

    @property
    def of_jobmanager(self) -> bool:
        return self.label.startswith(OF_JOBMANAGER)

    @property
    def subject(self) -> str:
        return self.label if self.of_jobmanager else self.tm or self.host

    def take(self, sign: Symptom) -> bool:
        """Take in a sign. Returns whether the finding changes by it."""
        more_severe = sign.severity == "critical" and self.severity != "critical"
        rank, before = _ORDER.index(sign.confidence), _ORDER.index(self.confidence)
        if more_severe:
            self.severity = "critical"
        if rank >= before:
            self.confidence, self.text = sign.confidence, sign.text
        self.last = max(self.last, sign.time)
        return more_severe or rank > before

    def prove(self, record: Evidence | None) -> None:
        """Keep the record of a sign."""
        if record is not None and record not in self.records:
            self.records = [*self.records, record][:_MAX_RECORDS]


def label_of(sample: Sample, event: Event) -> str:
    """The process that a sample of memory or collections is about: a TaskManager's id or host, or a JobManager's host.

    A JobManager is no TaskManager although it may share the host of one.
    """
    if sample.name.startswith("jm_"):
        return OF_JOBMANAGER + sample.labels.get("host", event.host)
    return sample.labels.get("tm_id") or filtered(event.host)


def label_of_jobmanager(host: str, measured: list[str]) -> str:
    """The label of the JobManager on a host: of those `measured`, the one there, else the only one."""
    there = [label for label in measured if label.startswith(OF_JOBMANAGER)]
    same = [label for label in there if short(label.removeprefix(OF_JOBMANAGER)) == short(host)]
    return same[0] if same else there[0] if len(there) == 1 else OF_JOBMANAGER + host
