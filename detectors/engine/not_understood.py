"""Sources whose records are read but not understood: counted by topic, and named if nearly all are not understood.

A log with an unknown layout, or metrics with other names, cause no error: they are read, but no incident is ever found
in them. Only such sources are kept in state, so a healthy fleet needs only two numbers per topic.
"""

from collections.abc import Iterable

import msgspec

from detectors.incident import Reading
from detectors.values.bounded import put_bounded

READING = "input_not_understood_ratio"

_MAX_SOURCES = 100
_MAX_TOPICS = 100
# Even a source with a known layout has some unknown lines, printed by user code, and most metric names are not needed.
_MOST = 0.95
_ENOUGH = 50
_LASTING_MS = 120_000
_RECENT = 2_000
_FORGET_MS = 3_600_000


class SourceSample(msgspec.Struct, array_like=True):
    """Counts of one source's records in a task: all (`seen`), not understood (`missed`), and `flink`, the number of
    `missed` ones that seem to come from Flink.
    """

    topic: str
    cluster: str
    host: str
    seen: int
    missed: int
    flink: int


class UnknownSource(msgspec.Struct, array_like=True):
    """A source with records that were not understood, since `since` (clock, ms). `published`: it has a reading."""

    looked: SourceSample
    since: int
    at: int
    published: bool = False

    def reading(self, at: int) -> Reading:
        """The share of records that is not understood, as a reading of time `at`."""
        looked = self.looked
        labels = {"topic": looked.topic, "cluster": looked.cluster, "source": looked.host}
        return Reading(name=READING, labels=labels, value=looked.missed / looked.seen, at=at)

    def matters(self) -> bool:
        """Whether enough records have not been understood for long enough, and some seem to be Flink's. A source with
        a share that is understood is not kept.
        """
        lasting = self.at - self.since >= _LASTING_MS
        return lasting and self.looked.flink > 0 and self.looked.seen >= _ENOUGH


class Recognition(msgspec.Struct, array_like=True):
    """For one bucket: counts (understood, not understood) by topic since the beginning, and sources not understood."""

    topics: dict[str, tuple[int, int]] = {}
    sources: dict[str, UnknownSource] = {}

    def fold(self, looked: Iterable[SourceSample], clock: int) -> list[str]:
        """Add what was seen up to `clock`; returns the keys of readings that end."""
        for one in looked:
            understood, missed = self.topics.get(one.topic, (0, 0))
            put_bounded(self.topics, one.topic, (understood + one.seen - one.missed, missed + one.missed), _MAX_TOPICS)
            self._fold(one, clock)
        return [key for name in [*self.sources] for key in self._ended(name, clock)]

    def readings(self, labels: dict[str, str], at: int) -> list[Reading]:
        """The counts by topic, and the sources whose records are nearly all not understood."""
        found = []
        for topic, counts in sorted(self.topics.items()):
            for name, count in zip(("records_understood_total", "records_not_understood_total"), counts, strict=True):
                labelled = {"topic": topic, **labels}
                found.append(Reading(name=name, labels=labelled, value=float(count), at=at, type="counter"))
        for source in self.sources.values():
            if source.matters():
                source.published = True
                found.append(source.reading(at))
        return found

    def _fold(self, one: SourceSample, clock: int) -> None:
        name = f"{one.topic}\n{one.cluster}\n{one.host}"
        source = self.sources.get(name)
        if source is None:
            if one.missed and len(self.sources) < _MAX_SOURCES:
                self.sources[name] = UnknownSource(one, clock, clock)
            return
        known = source.looked
        known.seen, known.missed, known.flink = (
            known.seen + one.seen,
            known.missed + one.missed,
            known.flink + one.flink,
        )
        while known.seen > _RECENT:
            known.seen, known.missed, known.flink = known.seen // 2, known.missed // 2, (known.flink + 1) // 2
        source.at = clock

    def _ended(self, name: str, clock: int) -> list[str]:
        source = self.sources[name]
        looked = source.looked
        if source.at < clock - _FORGET_MS or (looked.seen >= _ENOUGH and looked.missed < _MOST * looked.seen):
            del self.sources[name]
            return [source.reading(clock).key()] if source.published else []
        return []
