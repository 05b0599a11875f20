"""Which answers of people a message is to show, and which messages differ: they are edited by the ordinary policy.

The feedback and the notification log are compared, so that a restart, or another deliverer, finds what is missing. The
reminder is a mark, too: the log has it before the reminder is posted, so that a crash cannot repeat it.
"""

from msgspec.structs import replace

from sinks.contract.feedback import FeedbackState, Marks
from sinks.contract.receiver import Receiver
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.delivery.outbox import Clocks, Outbox

_CHECK_EVERY_S = 5.0
_AT_ONCE = 50


class Marking:
    """Of one receiver. Used from its thread."""

    def __init__(
        self, receiver: Receiver, log: NotificationLog, outbox: Outbox, feedback: FeedbackState, clocks: Clocks
    ) -> None:
        self._receiver, self._log, self._outbox, self._feedback, self._clocks = receiver, log, outbox, feedback, clocks
        self._enabled = receiver.sink.traits.shows_marks
        self._checked: int | None = None
        self._check_at = 0.0

    def wanted(self, entry: Entry | None, incident: str) -> Marks | None:
        """What the message of an incident is to show; None if the receiver shows nothing of the kind."""
        if not self._enabled:
            return None
        if not self._feedback.complete:
            # An answer that has not been read yet must not vanish from a message.
            return None
        marks = self._feedback.marks(incident)
        if entry is None:
            return marks
        reminded_at = self._clocks.now_ms() if self._must_remind(entry, marks) else entry.marks.reminded_at
        return replace(marks, reminded_at=reminded_at)

    def check_again(self) -> None:
        """Another partition is ours now."""
        self._checked = None

    def to_read(self) -> list[tuple[int, int]]:
        """Partition and offset of the incidents whose messages differ from what they are to show."""
        now, version = self._clocks.monotonic(), self._feedback.version
        due = self._receiver.remind_after and now >= self._check_at
        if not self._enabled or (version == self._checked and not due):
            return []
        self._checked, self._check_at = version, now + _CHECK_EVERY_S
        differ = [(partition, entry) for partition, entry in self._log.entries() if self._differs(entry)]
        found = [(partition, entry.offset) for partition, entry in differ if entry.incident not in self._outbox]
        if len(differ) > min(len(found), _AT_ONCE):
            # What is in the outbox may have been sent with the old marks.
            self._checked = None
        return found[:_AT_ONCE]

    def _differs(self, entry: Entry) -> bool:
        wanted = self.wanted(entry, entry.incident) if entry.ts and entry.offset >= 0 else None
        return wanted not in (None, entry.marks)

    def _must_remind(self, entry: Entry, marks: Marks) -> bool:
        """Whether it is open, critical, neither silenced nor acknowledged, for too long, and this is the first time."""
        known, after = entry.notified, self._receiver.remind_after
        if not after or known is None or entry.marks.reminded_at or marks.acknowledged is not None:
            return False
        calls_for_someone = known.change in {"opened", "updated"} and not known.silence and not entry.silenced
        return bool(calls_for_someone and known.critical_at and self._clocks.now_ms() - known.critical_at >= after)
