"""Subtasks that acknowledge a checkpoint after it has expired: which, where they run, and how late they are."""

import msgspec

from detectors.incident import Evidence
from detectors.values.bounded import append_new

_MAX_LATE = 200
_MAX_RECORDS = 4


class LateAck(msgspec.Struct, array_like=True):
    """One late subtask: event time of its line, task as Flink prints it, TaskManager and host (empty if unknown)."""

    time: int
    task: str
    tm: str
    host: str


class AbortNotice(msgspec.Struct, array_like=True):
    """A TaskManager logs that a checkpoint is aborted before its subtask had begun it; `at` is the clock.

    Sources interleave, so it may arrive before the expiry of its checkpoint.
    """

    checkpoint: int
    at: int
    ack: LateAck
    record: Evidence


class ExpiredCheckpoint(msgspec.Struct, array_like=True):
    """An expired checkpoint, when it expired (event time, clock), and the subtasks that were late.

    `acks` are by attempt id, or by TaskManager and time. `notices`: a TaskManager logged that it is aborted.
    """

    time: int
    at: int
    records: list[Evidence]
    acks: dict[str, LateAck] = {}
    notices: bool = False
    reported: bool = False

    def add(self, attempt: str, ack: LateAck, record: Evidence) -> bool:
        """Add one late subtask; False if it is known already."""
        if attempt in self.acks or len(self.acks) >= _MAX_LATE:
            return False
        self.acks[attempt] = ack
        append_new(self.records, record, _MAX_RECORDS)
        return True

    def notice(self, notice: AbortNotice) -> bool:
        """Add the subtask of a notice, whose line names no attempt; False if it is known already."""
        self.notices = True
        return self.add(f"{notice.ack.tm or notice.ack.host}@{notice.ack.time}", notice.ack, notice.record)

    def burst(self, within: int) -> bool:
        """Whether the acknowledgements came at once: barriers had waited behind data. Slow uploads end one by one."""
        times = [a.time for a in self.acks.values()]
        return self.notices or max(times) - min(times) <= within

    def place(self, least: float) -> tuple[str, str, float]:
        """(TaskManager, host, share of the late subtasks there); no names if the share is below `least`."""
        places = [(a.tm, a.host) for a in self.acks.values() if a.tm or a.host]
        if not places:
            return "", "", 0.0
        share, (tm, host) = max((places.count(p) / len(self.acks), p) for p in set(places))
        return (tm, host, share) if share >= least else ("", "", share)
