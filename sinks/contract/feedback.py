"""What people answer to a message, and its records in the topic `flinkwatch.feedback`.

A record's key names the answer and the incident, so that compaction keeps the newest of each. Labels are wanted for
good, and an acknowledgement is small.
"""

import threading
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from detectors.values.decoding import carried, moment
from detectors.values.stored_format import StoredFormat
from sinks.contract.notified import Whole

Answer = Literal["acknowledged", "not_an_incident"]

_INCIDENTS_KEPT = 20_000


class Mark(msgspec.Struct, frozen=True):
    """Who gave an answer, and when (epoch ms)."""

    by: str
    at: Whole


class Marks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message shows of people's answers. `reminded_at` is when its channel was reminded (epoch ms; 0: never)."""

    acknowledged: Mark | None = None
    not_an_incident: Mark | None = None
    reminded_at: Whole = 0


NO_MARKS = Marks()


class Feedback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="version", tag=1):
    """One person's answer to one incident. `withdrawn`: the answer no longer holds.

    `kind`, `cluster` and `job` are those of the incident at that time, `user` is the person's ID at Slack, `at` is
    epoch ms, and `words` is what the person wrote about it.
    """

    incident: str
    answer: Answer
    person: str
    user: str
    at: int
    kind: str = ""
    cluster: str = ""
    job: str = ""
    words: str = ""
    withdrawn: bool = False

    def key(self) -> bytes:
        return f"{self.answer}/{self.incident}".encode()

    def encoded(self) -> bytes:
        return _encode(self)


class FeedbackState:
    """The answers that hold, by incident. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: dict[str, Marks] = {}
        self.version = 0
        """Grows with each change."""
        self.complete = False
        """Whether everything that was in the topic at the start has been read; until then answers may be missing."""

    def add(self, feedback: Feedback) -> None:
        """A newer answer takes the place of an older one."""
        mark = None if feedback.withdrawn else Mark(feedback.person, feedback.at)
        with self._lock:
            marks = replace(self._marks.pop(feedback.incident, NO_MARKS), **{feedback.answer: mark})
            if marks != NO_MARKS:
                self._marks[feedback.incident] = marks
            if len(self._marks) > _INCIDENTS_KEPT:
                del self._marks[next(iter(self._marks))]
            self.version += 1

    def finish_start(self) -> None:
        with self._lock:
            if not self.complete:
                self.complete = True
                self.version += 1

    def marks(self, incident: str) -> Marks:
        with self._lock:
            return self._marks.get(incident, NO_MARKS)

    def acknowledged(self) -> Mapping[str, Mark]:
        """The acknowledgements by incident, also of incidents that have resolved."""
        with self._lock:
            return {name: marks.acknowledged for name, marks in self._marks.items() if marks.acknowledged is not None}


_encode = msgspec.json.Encoder().encode
FEEDBACK_FORMAT = StoredFormat("the feedback", Feedback, msgspec.json)


@carried
def decode_feedback(value: bytes) -> Feedback:
    """Decodes a record of `flinkwatch.feedback`. Raises UndecodableError and nothing else."""
    found = FEEDBACK_FORMAT.decode(value)
    moment(found.at)
    return found
