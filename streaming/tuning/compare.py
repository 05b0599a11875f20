"""What another configuration would have said of the same records: `flinkwatch tune`.

The records are decoded once; both configurations step over the same events, each with states of its own. Configuration
records in a recording do not count here.
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
"""Openings this close together are at the same time: one trigger."""

Progress = Callable[[int], None]
"""Is told the stream's clock, epoch ms, now and then."""


class Moved(msgspec.Struct):
    old: ReplayedIncident
    new: ReplayedIncident

    def row(self) -> dict[str, object]:
        """What is printed as JSON."""
        return {"old": self.old.row(), "new": self.new.row()}


class Comparison(msgspec.Struct):
    """What changes from the old configuration to the new; an incident may stand in several lists but the first two.

    `silenced` and `told`: a silence hides it from now on, or no longer. `span` is the time recorded, ms.
    """

    added: list[ReplayedIncident] = []
    removed: list[ReplayedIncident] = []
    earlier: list[Moved] = []
    later: list[Moved] = []
    cause_changed: list[Moved] = []
    severity_changed: list[Moved] = []
    silenced: list[Moved] = []
    told: list[Moved] = []
    same: int = 0
    span: int = 0

    def exceeds(self, max_new: int = 0, max_lost: int = 0) -> bool:
        """Whether more incidents are added or removed than is allowed."""
        return len(self.added) > max_new or len(self.removed) > max_lost

    def moved(self) -> dict[str, list[Moved]]:
        """The lists of incidents that both have, by name."""
        names = ("earlier", "later", "cause_changed", "severity_changed", "silenced", "told")
        return {name: getattr(self, name) for name in names}

    def add(self, old: list[ReplayedIncident], new: list[ReplayedIncident]) -> None:
        """Compare the incidents of one more stream."""
        pairs = list(paired(old, new))
        known = {id(t) for pair in pairs for t in pair}
        self.removed += [t for t in old if id(t) not in known]
        self.added += [t for t in new if id(t) not in known]
        for a, b in pairs:
            changes = list(_changes(a, b))
            for change in changes:
                getattr(self, change).append(Moved(a, b))
            self.same += not changes


class Replayed:
    """A replay under one configuration."""

    def __init__(self, live: LiveSettings) -> None:
        self._index = bucket.BucketIndex(published=publish(live, 0, "tune"))
        self._store = MemoryStore()
        self._tale = ReplayedIncidents()

    def take(self, batches: Batches) -> None:
        """Step over the next events. Raises RecordingError when a detector fails."""
        for until, events in batches:
            self._tale.take(step(self._index, self._store, events, until))

    def incidents(self) -> list[ReplayedIncident]:
        return self._tale.incidents()


def compare(
    files: Iterable[Path], old: LiveSettings, new: LiveSettings, settings: Settings, progress: Progress = lambda _: None
) -> Comparison:
    """What changes when `new` takes the place of `old`; `settings` say which topics are metrics and who is who.

    Raises RecordingError, which names file and line.
    """
    found = Comparison()
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
        yield "silenced" if new.silenced else "told"
