"""Which process can be believed when it reports another one as lost: one rule for all detectors.

A process that is sick, frozen or cut off sees all others vanish, and writes the same lines as a healthy one whose peer
is gone. So its word proves nothing

- if it has an OutOfMemoryError or a fatal error of its own. Those lines come up to a minute after the lost heartbeats,
  because a full heap holds up everything;
- if the JobManager had given it up first: then the JobManager was at work, and only its later silence shows otherwise.

If a JobManager and a TaskManager report each other as lost and both continue, neither is lost, but the path between
them. A TaskManager that was only frozen registers again within seconds.
"""

import msgspec

from detectors.events.event import Sample
from detectors.events.names import filtered
from detectors.flink.facts import (
    Fact,
    Failure,
    JobManagerFatal,
    JobManagerFound,
    JobManagerMissed,
    JobManagerUnresolved,
    ProcessFatal,
    TaskManagerGone,
    TaskManagerRegistered,
)
from detectors.flink.processes.dying_processes import out_of_its_own_memory
from detectors.values.bounded import put_bounded

_MAX_SOURCES = 200
_MAX_TMS = 400
_SKEW_MS = 5_000
# A process with a full heap misses heartbeats for up to their timeout before its first error, and takes minutes to die.
_SICK_BEFORE_MS, _SICK_AFTER_MS = 60_000, 300_000
# One pause or one missed connection is no broken path: three signs of life, and two attempts to connect (10 s apart).
_SIGNS, _FOR_MS, _APART_MS = 3, 20_000, 4_000
_TOGETHER_MS = 120_000
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"


class Missing(msgspec.Struct, array_like=True):
    """A TaskManager without its JobManager: event times of its first word and its last sign of life, and how many."""

    since: int
    last: int
    source: str
    signs: int = 1

    def sign(self, time: int) -> None:
        """Take in a sign of life. Those of one moment are one."""
        if time - self.last >= _APART_MS:
            self.last, self.signs = time, self.signs + 1


class Witnesses(msgspec.Struct, array_like=True):
    """What makes processes doubtful. `sick` are event times by source, `missing` and `given_up` by TaskManager.

    `given_up` holds the event time and the JobManager's source; `leading` is the last sign of life of a JobManager.
    """

    sick: dict[str, int] = {}
    missing: dict[str, Missing] = {}
    given_up: dict[str, tuple[int, str]] = {}
    leading: int = 0

    def take(self, source: str, tm: str, leading: bool, fact: Fact, time: int) -> None:
        """Take in a line of a process: of a TaskManager, if its id is known, or of a JobManager (`leading`)."""
        if leading:
            self.leads(time)
        elif tm in self.missing:
            self.missing[tm].sign(time)
        match fact:
            case Failure() if not _is_own_error(fact, leading):
                pass
            case Failure() | JobManagerFatal() | ProcessFatal():
                put_bounded(self.sick, source, max(time, self.sick.get(source, time)), _MAX_SOURCES)
            case TaskManagerGone() if leading and fact.tm not in self.given_up:
                put_bounded(self.given_up, fact.tm, (time, source), _MAX_TMS)
            case TaskManagerRegistered():
                self._connected(fact.tm, time)
            case JobManagerFound():
                self._connected(tm, time)
            case JobManagerMissed() | JobManagerUnresolved() if tm and not leading and tm not in self.missing:
                put_bounded(self.missing, tm, Missing(time, time, source), _MAX_TMS)

    def leads(self, time: int) -> None:
        """Take in a sign of life of a JobManager."""
        self.leading = max(self.leading, time)

    def measured(self, samples: list[Sample], time: int) -> None:
        """Take in a scrape of TaskManagers."""
        by_label = {filtered(tm): known for tm, known in self.missing.items()}
        for sample in samples:
            known = by_label.get(filtered(sample.labels.get("tm_id", "")))
            if known is not None:
                known.sign(time)

    def believed(self, source: str, time: int) -> bool:
        """Whether the word of this process about others counts, at this event time."""
        at = self.sick.get(source)
        return at is None or not -_SICK_BEFORE_MS <= time - at <= _SICK_AFTER_MS

    def given_up_first(self, tm: str, time: int) -> bool:
        """Whether a JobManager that can be believed had given up this TaskManager by then."""
        if tm not in self.given_up:
            return False
        at, master = self.given_up[tm]
        return at <= time + _SKEW_MS and self.believed(master, at)

    def path_broken(self, tm: str) -> bool:
        """Whether this TaskManager and its JobManager miss each other while both continue."""
        known = self.missing.get(tm)
        if known is None or tm not in self.given_up:
            return False
        at, master = self.given_up[tm]
        both = self.believed(known.source, known.since) and self.believed(master, at)
        together = abs(known.since - at) <= _TOGETHER_MS and self.leading >= at + _FOR_MS
        return both and together and known.signs >= _SIGNS and known.last - max(known.since, at) >= _FOR_MS

    def _connected(self, tm: str, time: int) -> None:
        """They are in contact. A line that comes late ends nothing that began after it."""
        if tm in self.missing and self.missing[tm].since < time:
            del self.missing[tm]
        if tm in self.given_up and self.given_up[tm][0] < time:
            del self.given_up[tm]


def _is_own_error(fact: Failure, leading: bool) -> bool:
    """Whether a process is out of its own memory. A JobManager also quotes the errors of its TaskManagers."""
    return not fact.again and (out_of_its_own_memory(fact) if leading else _OUT_OF_MEMORY in fact.thrown)
