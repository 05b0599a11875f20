"""Subtasks that acknowledge a checkpoint after it has expired: which, where they run, and how late they are."""

from zlib import crc32

import msgspec

from detectors.flink.checkpointing.held_barriers import Cause, Hold
from detectors.incident import Evidence
from detectors.values.bounded import append_new
from detectors.values.durations import LONG_AGO

_MAX_CHECKPOINTS = 4
_MAX_LATE = 200
_MAX_RECORDS = 4
_MAX_SUBTASKS = 8
_MAX_NOTICES = 400
_MAX_NOTICES_OF_ONE = 20
_RECENT_MS = 3_600_000
_AT_ONCE_MS = 1_000


class LateAck(msgspec.Struct, array_like=True):
    """One late subtask: event time of its line, task as Flink prints it, TaskManager and host (empty if unknown).

    `noticed`: it has not acknowledged the checkpoint, its TaskManager noticed that the checkpoint is aborted.
    """

    time: int
    task: str
    tm: str
    host: str
    noticed: bool = False


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

    `acks` are by attempt id, or by TaskManager and time. `due` is the clock at which it is judged (0: not waiting).
    """

    time: int
    at: int
    records: list[Evidence]
    acks: dict[str, LateAck] = {}
    due: int = 0
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
        return self.add(f"{notice.ack.tm or notice.ack.host}@{notice.ack.time}", notice.ack, notice.record)

    @property
    def noticed(self) -> int:
        """How many subtasks had not begun it when it was aborted: the barrier had not come through."""
        return sum(a.noticed for a in self.acks.values())

    def places(self) -> list[tuple[str, str]]:
        """(TaskManager, host) of each late subtask whose place is known."""
        return [(a.tm, a.host) for a in self.acks.values() if a.tm or a.host]

    def place(self, least: float) -> tuple[str, str, float]:
        """(TaskManager, host, share of the late subtasks there); no names if the share is below `least`."""
        places = self.places()
        if not places:
            return "", "", 0.0
        share, (tm, host) = max((places.count(p) / len(self.acks), p) for p in set(places))
        return (tm, host, share) if share >= least else ("", "", share)


class JobAcks(msgspec.Struct, array_like=True):
    """Expired checkpoints of one job by number, oldest first; `repeated` counts those with late acknowledgements.

    `open` is the number of the checkpoint that the open finding shows, and `since` its beginning. `reset` is the event
    time at which the job last changed or was restored: checkpoint numbers may start again there. If the open number
    expires again after that, `earlier` is the checkpoint of before, which is shown until the new one is proven to be
    late, too. `subtasks` are the first few that metrics show: a job that has fewer than needed cannot have more late.
    """

    expired: dict[int, ExpiredCheckpoint] = {}
    repeated: int = 0
    healthy: int = 0
    open: int = -1
    reset: int = LONG_AGO
    since: int = 0
    earlier: ExpiredCheckpoint | None = None
    subtasks: list[int] = []
    hold: Hold = msgspec.field(default_factory=Hold)
    cause: Cause = Cause()

    def measured(self, subtask: str) -> None:
        """Note a subtask that has metrics."""
        if len(self.subtasks) < _MAX_SUBTASKS:
            append_new(self.subtasks, crc32(subtask.encode()), _MAX_SUBTASKS)

    def wait(self, number: int, until: int) -> bool:
        """Whether a checkpoint with late subtasks is to be judged only then: the others may be late too."""
        checkpoint = self.expired[number]
        if not checkpoint.reported and not checkpoint.due:
            checkpoint.due = until
        return not checkpoint.reported

    def woken(self) -> bool:
        """Whether a task that was stuck answered for several checkpoints at once, and one has completed since."""
        late = [c for c in self.expired.values() if c.acks]
        times = [a.time for c in late for a in c.acks.values()]
        return self.healthy > 0 and len(late) > 1 and max(times) - min(times) <= _AT_ONCE_MS

    def due(self, clock: int) -> list[int]:
        """The numbers of the checkpoints that are to be judged now."""
        numbers = [n for n, c in self.expired.items() if 0 < c.due <= clock]
        for number in numbers:
            self.expired[number].due = 0
        return numbers

    def shown(self) -> ExpiredCheckpoint:
        """The checkpoint that the open finding shows."""
        return self.earlier or self.expired[self.open]

    def may_be_of(self, number: int, time: int) -> bool:
        """Whether a line of this time may be about an expired checkpoint, and not about one of before a restore."""
        return number in self.expired and (time >= self.reset or self.expired[number].time < self.reset)

    def expire(self, number: int, checkpoint: ExpiredCheckpoint) -> None:
        """Add an expired checkpoint and drop those of an earlier episode, but never that of the open finding."""
        if number == self.open:
            self.earlier = self.shown()
        for old, known in list(self.expired.items()):
            if old != self.open and checkpoint.at - known.at > _RECENT_MS:
                del self.expired[old]
        if self.open < 0 and not any(c.reported for c in self.expired.values()):
            self.repeated = 0
        self.expired.pop(number, None)
        while len(self.expired) >= _MAX_CHECKPOINTS:
            del self.expired[next(n for n in self.expired if n != self.open)]
        self.expired[number] = checkpoint

    def late(self, number: int, least: int, repeats: int) -> bool:
        """Whether enough subtasks were late for this checkpoint, or some for `repeats` checkpoints; shows it if so."""
        checkpoint = self.expired[number]
        if 0 < len(self.subtasks) < _MAX_SUBTASKS:
            least = min(least, len(self.subtasks))
        if not checkpoint.reported:
            others = sum(1 for c in (*self.expired.values(), self.earlier) if c is not None and c.acks)
            if not checkpoint.noticed and len(checkpoint.acks) < least and others < repeats:
                return False
            checkpoint.reported = True
            self.repeated += 1
        if number >= self.open or self.shown().time < self.reset:
            first = min(c.time for c in self.expired.values() if c.reported)
            self.since = min(self.since, first) if self.open >= 0 else first
            self.open, self.earlier = number, None
        return True


def keep_waiting(notices: list[AbortNotice], notice: AbortNotice) -> list[AbortNotice]:
    """Add a notice that waits for the expiry of its checkpoint. One process with many subtasks displaces no other."""
    ack = notice.ack
    same = [n for n in notices if n.checkpoint == notice.checkpoint and (n.ack.tm, n.ack.host) == (ack.tm, ack.host)]
    if len(same) >= _MAX_NOTICES_OF_ONE:
        return notices
    return [*notices, notice][-_MAX_NOTICES:]
