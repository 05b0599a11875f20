"""Compares the incidents that two configurations report for the same records.

The records are decoded once; both configurations process the same events, each with its own state. Configuration
records in a recording are ignored.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from detectors.engine import bucket
from detectors.settings.live import LiveSettings, publish
from streaming.configuration.settings import Settings
from streaming.recordings.replay import MemoryStore, step
from streaming.tuning.events import Batches, pieces, streams
from streaming.tuning.incidents import ReplayedIncident, ReplayedIncidents, paired

_SAME_MS = 1_000
"""Incidents that open within this time (one trigger) count as opened at the same time."""

Progress = Callable[[int], None]
"""Called with the stream's clock (epoch ms) from time to time."""


class Moved(msgspec.Struct):
    old: ReplayedIncident
    new: ReplayedIncident

    def row(self) -> dict[str, object]:
        return {"old": self.old.row(), "new": self.new.row()}


class Comparison(msgspec.Struct):
    """The differences between the old configuration and the new. An incident may be in several lists except the first
    two.

    `silenced` and `unsilenced` incidents are muted under the new configuration only, or under the old one only. `span`
    is the recorded time in ms. `marked` are the IDs of incidents that people marked as not an incident, and
    `marked_kept` those of them that the new configuration still reports.
    """

    marked: frozenset[str] = frozenset()
    marked_kept: list[ReplayedIncident] = []

    added: list[ReplayedIncident] = []
    removed: list[ReplayedIncident] = []
    earlier: list[Moved] = []
    later: list[Moved] = []
    cause_changed: list[Moved] = []
    severity_changed: list[Moved] = []
    silenced: list[Moved] = []
    unsilenced: list[Moved] = []
    same: int = 0
    span: int = 0

    def exceeds(self, max_new: int = 0, max_lost: int = 0) -> bool:
        """Whether more incidents are added or lost than is allowed. A removed one that was none is not lost."""
        lost = sum(one.incident not in self.marked for one in self.removed)
        return len(self.added) > max_new or lost > max_lost

    def moved(self) -> dict[str, list[Moved]]:
        """The lists of incidents that both configurations report, by name."""
        names = ("earlier", "later", "cause_changed", "severity_changed", "silenced", "unsilenced")
        return {name: getattr(self, name) for name in names}

    def add(self, old: list[ReplayedIncident], new: list[ReplayedIncident]) -> None:
        pairs = list(paired(old, new))
        known = {id(t) for pair in pairs for t in pair}
        self.removed += [t for t in old if id(t) not in known]
        self.added += [t for t in new if id(t) not in known]
        self.marked_kept += [a for a, _ in pairs if a.incident in self.marked]
        for a, b in pairs:
            changes = list(_changes(a, b))
            for change in changes:
                getattr(self, change).append(Moved(a, b))
            self.same += not changes


class Replayed:
    def __init__(self, live: LiveSettings) -> None:
        self._index = bucket.BucketIndex(published=publish(live, 0, "tune"))
        self._store = MemoryStore()
        self._incidents = ReplayedIncidents()

    def take(self, batches: Batches) -> None:
        """Process the next events. Raises RecordingError if a detector fails."""
        for until, events in batches:
            self._incidents.take(step(self._index, self._store, events, until))

    def incidents(self) -> list[ReplayedIncident]:
        return self._incidents.incidents()


def compare(
    files: Iterable[Path],
    old: LiveSettings,
    new: LiveSettings,
    settings: Settings,
    progress: Progress = lambda _: None,
    marked: frozenset[str] = frozenset(),
) -> Comparison:
    """Compare the incidents under `old` and `new`; `settings` name the metric topics and the rules for cluster names.
    `marked` are the IDs of incidents that people marked as not an incident.

    Raises RecordingError, which names file and line.
    """
    found = Comparison(marked=marked)
    for stream in streams(files):
        both = Replayed(old), Replayed(new)
        begin = last = 0
        for batches in pieces(stream, settings):
            begin, last = begin or batches[0].until, batches[-1].until
            for replayed in both:
                replayed.take(batches)
            progress(last)
        found.add(both[0].incidents(), both[1].incidents())
        found.span += last - begin
    return found


def _changes(old: ReplayedIncident, new: ReplayedIncident) -> Iterable[str]:
    if abs(new.opened_at - old.opened_at) >= _SAME_MS:
        yield "earlier" if new.opened_at < old.opened_at else "later"
    if new.cause != old.cause:
        yield "cause_changed"
    if new.severity != old.severity:
        yield "severity_changed"
    if new.silenced != old.silenced:
        yield "silenced" if new.silenced else "unsilenced"
