"""Joins the lines of stack traces of each source: which throwable explains which failure, and what its root cause is.

The failing line comes first (`vocabulary.THROWS`), then its throwable and the causes, in the same record or one record
for each line, interleaved with other sources and cut into batches anywhere. Each line of the stack trace gives a
`failure` event: the failing line's fields with what is known of the throwable so far. The last one has the root cause.
"""

import msgspec

from detectors.events.event import LogEvent
from detectors.events.layouts import stack_line
from detectors.events.vocabulary.match import THROWS
from detectors.values.bounded import put_bounded

FAILURE = "failure"
"""Type of the joined event.

Its fields are those of the failing line and: `of`, the type of that line (empty if it has none); `id`, its address
topic/partition/offset; `class` and `message` of the deepest cause so far; `first`, class and message of the outermost
throwable; `frame`, the first frame in user code under the deepest cause that has one, or empty.
"""

_MAX_SOURCES = 200
_WITHIN_MS = 10_000
# Lines about these states do not throw: a stack trace after them belongs to another line.
_CALM = frozenset({"CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "RECONCILING"})


class StackTrace(msgspec.Struct, array_like=True):
    """A failing line and its stack trace so far. `timestamp` is Kafka's."""

    of: str
    id: str
    timestamp: int
    fields: dict[str, str]
    first: str = ""
    frame_wanted: bool = False


class StackTraces(msgspec.Struct, array_like=True):
    """The last failing line of each source."""

    stacks: dict[str, StackTrace] = {}

    def join(self, event: LogEvent) -> LogEvent | None:
        """Take in any line. Returns the failure if the line adds to one, else None."""
        if event.event_type in THROWS:
            if event.fields.get("state") in _CALM:
                self.stacks.pop(event.source, None)
            else:
                self._begin(event, event.event_type, event.fields)
            return None
        if event.event_type == stack_line.THROWN:
            return _failure(event, self._thrown(event))
        stack = self.stacks.get(event.source)
        if event.event_type != stack_line.FRAME or stack is None or not stack.frame_wanted:
            return None
        stack.frame_wanted = False
        stack.fields["frame"] = event.fields["frame"]
        return _failure(event, stack)

    def _begin(self, event: LogEvent, of: str, fields: dict[str, str]) -> StackTrace:
        stack = StackTrace(of, f"{event.topic}/{event.partition}/{event.offset}", event.timestamp, fields)
        put_bounded(self.stacks, event.source, stack, _MAX_SOURCES)
        return stack

    def _thrown(self, event: LogEvent) -> StackTrace:
        stack = self.stacks.get(event.source)
        thrown = f"{event.fields['class']}: {event.fields['message']}".rstrip(": ")
        caused = "caused" in event.fields
        if (
            stack is None
            or "orphan" in event.fields
            or not 0 <= event.timestamp - stack.timestamp <= _WITHIN_MS
            # The same line again is a duplicate record.
            or (stack.first and not caused and thrown != stack.first)
        ):
            stack = self._begin(event, "", {})
        stack.first = stack.first or thrown
        stack.fields = {**stack.fields, "class": event.fields["class"], "message": event.fields["message"]}
        stack.frame_wanted = True
        return stack


def _failure(event: LogEvent, stack: StackTrace) -> LogEvent:
    fields = {"frame": "", **stack.fields, "of": stack.of, "id": stack.id, "first": stack.first}
    return msgspec.structs.replace(event, event_type=FAILURE, fields=fields)
