"""Sources of records that are read and never understood: counted by topic, and named while most of them is not.

A log in a layout that is not known, or metrics under other names, are no error: they are read, and nothing is ever
found in them. Only what is not understood is kept, so a healthy fleet keeps nothing here but two numbers a topic.
"""

from collections.abc import Iterable

import msgspec

from detectors.incident import Reading
from detectors.values.bounded import put_bounded

READING = "input_not_understood_ratio"

_MAX_SOURCES = 100
_MAX_TOPICS = 100
# Of a source whose layout is known some lines are not: what user code prints. And of metrics most names are not needed.
_MOST = 0.95
_ENOUGH = 50
_LASTING_MS = 120_000
_RECENT = 2_000
_FORGET_MS = 3_600_000


class SourceSample(msgspec.Struct, array_like=True):
    """What a task saw of one source: how many records, how many of them are not understood, how many of these seem
    to be Flink's.
    """

    topic: str
    cluster: str
    host: str
    seen: int
    missed: int
    flink: int


class UnknownSource(msgspec.Struct, array_like=True):
    """A source of which something was not understood, since `since` (clock, ms); `told`: its reading exists."""

    looked: SourceSample
    since: int
    at: int
    told: bool = False

    def reading(self, at: int) -> Reading:
        """The share that is not understood, told at `at`."""
        looked = self.looked
        labels = {"topic": looked.topic, "cluster": looked.cluster, "source": looked.host}
        return Reading(name=READING, labels=labels, value=looked.missed / looked.seen, at=at)

    def matters(self) -> bool:
        """Whether most of it is not understood, for long enough, and seems to be Flink's."""
        looked = self.looked
        lasting = self.at - self.since >= _LASTING_MS
        return lasting and looked.flink > 0 and looked.seen >= _ENOUGH and looked.missed >= _MOST * looked.seen


class Recognition(msgspec.Struct, array_like=True):
    """Of one bucket: (understood, not understood) by topic since the beginning, and the sources that are not."""

    topics: dict[str, tuple[int, int]] = {}
    sources: dict[str, UnknownSource] = {}

    def fold(self, looked: Iterable[SourceSample], clock: int) -> list[str]:
        """Take in what was seen up to `clock`; the keys of readings that end."""
        for one in looked:
            understood, missed = self.topics.get(one.topic, (0, 0))
            put_bounded(self.topics, one.topic, (understood + one.seen - one.missed, missed + one.missed), _MAX_TOPICS)
            self._fold(one, clock)
        return [key for name in [*self.sources] for key in self._ended(name, clock)]

    def readings(self, labels: dict[str, str], at: int) -> list[Reading]:
        """The counts by topic, and the sources of which most is not understood."""
        found = []
        for topic, counts in sorted(self.topics.items()):
            for name, count in zip(("records_understood_total", "records_not_understood_total"), counts, strict=True):
                labelled = {"topic": topic, **labels}
                found.append(Reading(name=name, labels=labelled, value=float(count), at=at, type="counter"))
        for source in self.sources.values():
            if source.matters():
                source.told = True
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
            return [source.reading(clock).key()] if source.told else []
        return []
