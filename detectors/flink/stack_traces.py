"""Joins the lines of stack traces of each source: which throwable explains which failure, and what its root cause is.

The failing line comes first (`vocabulary.THROWS`), then its throwable and the causes, in the same record or one record
for each line, interleaved with other sources and cut into batches anywhere. Each line of the stack trace gives a
`failure` event: the failing line's fields with what is known of the throwable so far. The last one has the root cause.

A shipper whose request was not answered in time sends lines again, with new offsets and later Kafka timestamps. A
failing line prints its time, which shows that it is known. A line of a stack trace usually has no time, and a restart
loop throws the same stack trace after every failing line. A known line therefore counts only if it arrives together
with the line before it, or if it followed the same line before.
"""

import msgspec

from detectors.events.event import LogEvent
from detectors.events.layouts import stack_line
from detectors.events.sent_again import AGAIN_MS, checksum
from detectors.events.vocabulary.match import THROWS
from detectors.flink.facts import FAILURE
from detectors.values.bounded import put_bounded

_MAX_SOURCES = 200
_WITHIN_MS = 10_000
_MAX_LINES = 60
_MAX_KNOWN = 1_000
_TOGETHER_MS = 1_000
# Lines about these states do not throw: a stack trace after them belongs to another line.
_CALM = frozenset({"CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "RECONCILING"})


class StackTrace(msgspec.Struct, array_like=True):
    """A failing line and its stack trace so far. `timestamp` is Kafka's, of the failing line, and `last` of the newest
    line. `printed` is the time in the failing line (-1: none), `lines` are the checksums of its stack trace.
    """

    of: str
    id: str
    timestamp: int
    fields: dict[str, str]
    first: str = ""
    frame_wanted: bool = False
    last: int = 0
    printed: int = -1
    lines: list[int] = []


class KnownLine(msgspec.Struct, array_like=True):
    """The Kafka timestamp of a recent line, and the checksum of the line of the stack trace before it, or 0."""

    timestamp: int
    after: int = 0


class StackTraces(msgspec.Struct, array_like=True):
    """The last failing line of each source, and recent lines by checksum, oldest first."""

    stacks: dict[str, StackTrace] = {}
    known: dict[int, KnownLine] = {}

    def join(self, event: LogEvent) -> LogEvent | None:
        """Take in any line. Returns the failure if the line adds to one, else None."""
        if event.event_type in THROWS:
            self._failing(event)
        elif event.event_type == stack_line.THROWN:
            return self._thrown(event)
        elif event.event_type == stack_line.FRAME:
            return self._frame(event)
        return None

    def _failing(self, event: LogEvent) -> None:
        stack = self.stacks.get(event.source)
        if event.fields.get("state") in _CALM:
            # An older line was sent again. It does not come between the failing line and its stack trace.
            if stack is not None and not 0 <= event.local_time < stack.printed:
                del self.stacks[event.source]
            return
        line = checksum(event)
        if event.local_time >= 0 and self._known(line, event) is not None:
            return
        self._remember(line, KnownLine(event.timestamp))
        stack = _began(event, event.event_type, event.fields)
        put_bounded(self.stacks, event.source, stack, _MAX_SOURCES)

    def _thrown(self, event: LogEvent) -> LogEvent | None:
        stack, line = self._near(event), checksum(event)
        if stack is not None and stack.of and line in stack.lines:
            return None  # Flink prints some stack traces twice, too.
        known = self._known(line, event)
        if stack is None or not _fits(event, stack, known):
            stack = _began(event, "", {})
            if known is None:
                put_bounded(self.stacks, event.source, stack, _MAX_SOURCES)
        else:
            known = None
        if known is None:
            self._remember(line, KnownLine(event.timestamp, _last(stack)))
        _append(stack, line, event)
        stack.first = stack.first or f"{event.fields['class']}: {event.fields['message']}".rstrip(": ")
        stack.fields = {**stack.fields, "class": event.fields["class"], "message": event.fields["message"]}
        stack.frame_wanted = True
        return _failure(event, stack, again=known is not None)

    def _frame(self, event: LogEvent) -> LogEvent | None:
        stack, line = self._near(event), checksum(event)
        if stack is None or not stack.frame_wanted or not _follows(event, stack, self._known(line, event)):
            return None
        self._remember(line, KnownLine(event.timestamp, _last(stack)))
        _append(stack, line, event)
        stack.frame_wanted = False
        stack.fields["frame"] = event.fields["frame"]
        return _failure(event, stack)

    def _near(self, event: LogEvent) -> StackTrace | None:
        """The stack trace that a line may belong to."""
        stack = self.stacks.get(event.source)
        if stack is None or "orphan" in event.fields or 0 <= event.local_time < stack.printed:
            return None
        return stack if 0 <= event.timestamp - stack.timestamp <= _WITHIN_MS else None

    def _known(self, line: int, event: LogEvent) -> KnownLine | None:
        known = self.known.get(line)
        return known if known is not None and abs(event.timestamp - known.timestamp) <= AGAIN_MS else None

    def _remember(self, line: int, known: KnownLine) -> None:
        self.known.pop(line, None)
        for old, other in [*self.known.items()]:
            if known.timestamp - other.timestamp <= AGAIN_MS:
                break
            del self.known[old]
        put_bounded(self.known, line, known, _MAX_KNOWN)


def _began(event: LogEvent, of: str, fields: dict[str, str]) -> StackTrace:
    address = f"{event.topic}/{event.partition}/{event.offset}"
    return StackTrace(of, address, event.timestamp, fields, last=event.timestamp, printed=event.local_time)


def _fits(event: LogEvent, stack: StackTrace, known: KnownLine | None) -> bool:
    """Whether a throwable is the next one of the stack trace: the outermost one first, then its causes."""
    caused = "caused" in event.fields
    if known is None:
        return caused or not stack.first  # The outermost throwable may not have been understood.
    return caused == bool(stack.first) and _follows(event, stack, known)


def _follows(event: LogEvent, stack: StackTrace, known: KnownLine | None) -> bool:
    """Whether a line may be the next one. Not every failing line has a stack trace, so nothing shows what its first
    line would be.
    """
    if known is None or event.timestamp - stack.last <= _TOGETHER_MS:
        return True
    return bool(stack.lines) and known.after == _last(stack)


def _last(stack: StackTrace) -> int:
    return stack.lines[-1] if stack.lines else 0


def _append(stack: StackTrace, line: int, event: LogEvent) -> None:
    stack.lines = [*stack.lines, line][-_MAX_LINES:]
    stack.last = event.timestamp


def _failure(event: LogEvent, stack: StackTrace, *, again: bool = False) -> LogEvent:
    fields = {"frame": "", **stack.fields, "of": stack.of, "id": stack.id, "first": stack.first}
    if again:
        fields["again"] = "yes"
    return msgspec.structs.replace(event, event_type=FAILURE, fields=fields)
