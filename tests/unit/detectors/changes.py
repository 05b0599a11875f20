"""Streams in which the configuration changes, as records of `flinkwatch.config` change it."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from detectors.engine import bucket
from detectors.events.event import Event, LogEvent
from detectors.incident import Finding, Transition
from detectors.incidents.silences import Silence, at
from detectors.settings.live import (
    LiveSettings,
    PublishedChange,
    PublishedConfiguration,
    PublishedResolution,
    PublishedSilence,
    publish,
    publish_silence,
)
from streaming.recordings.replay import MemoryStore
from tests.unit.detectors.streams import START

Change = PublishedChange


def live(
    detectors: Mapping[str, Any] | None = None, overrides: Iterable[Any] = (), silences: Iterable[Any] = ()
) -> PublishedConfiguration:
    """The live sections as a record."""
    written = {"detectors": detectors or {}, "overrides": [*overrides], "silences": [*silences]}
    return publish(LiveSettings.model_validate(written), 0, "tests")


def silence(until: int, begins: int | None = None, **more: Any) -> PublishedSilence:
    """A silence of the command line; times are ms after START."""
    edges = {"until": at(START + until)} | ({"begins": at(START + begins)} if begins is not None else {})
    return publish_silence(Silence(**{"author": "ann", "comment": "planned", **edges, **more}), 0, "tests")


class Played:
    """A bucket that batches and changes of its configuration are played to."""

    def __init__(self, published: PublishedConfiguration | None = None) -> None:
        self.index, self.store = bucket.BucketIndex(published=published), MemoryStore()
        self.gone: list[str] = []
        self.read: dict[str, float] = {}

    def change(self, *changes: Change) -> int:
        """What the next batch begins with; how many silences are refused."""
        published = [c for c in changes if isinstance(c, PublishedConfiguration)]
        silences = [c for c in changes if isinstance(c, PublishedSilence)]
        self.index.resolve(c for c in changes if isinstance(c, PublishedResolution))
        return self.index.configure(published[-1] if published else None, silences)

    def take(self, *events: Event, until: int | None = None) -> list[Transition]:
        """One batch; `until` is ms after START, else the greatest timestamp."""
        clock = max((e.timestamp for e in events), default=0) if until is None else START + until
        # What is kept is kept as bytes between any two batches.
        self.index = bucket.decode_index(bucket.encode_index(self.index))
        reported = bucket.step(self.index, self.store, events, clock)
        assert not reported.defects, reported.defects
        self.gone += reported.removed
        self.read |= {r.key(): r.value for r in reported.readings}
        return reported.transitions


def play(items: list[Event | Change], cuts: Iterable[int] = (), until: int = 0) -> list[Transition]:
    """The transitions of a stream with changes in it; each begins a batch, as the cuts do."""
    played, reported = Played(), list[Transition]()
    changes = [n for n, item in enumerate(items) if isinstance(item, Change)]
    for start, end in pairwise(sorted({0, len(items), *(c % (len(items) + 1) for c in cuts), *changes})):
        part = items[start:end]
        played.change(*(item for item in part if isinstance(item, Change)))
        batch = [item for item in part if not isinstance(item, Change)]
        if batch:
            reported += played.take(*batch)
    return reported + played.take(until=until)


def serialized(transitions: Iterable[Transition]) -> list[bytes]:
    """Everything but the hash of the configuration."""
    return [msgspec.json.encode(msgspec.structs.replace(t, config="")) for t in transitions]


def findings(transitions: Iterable[Transition], kind: str) -> list[Finding]:
    """Those of a kind, as often as they were reported."""
    return [f for t in transitions for f in t.findings if f.kind == kind]


TWIN = "twin"


def twin(event: Event) -> Event:
    """The same of another job of the cluster, named `twin`, with processes of its own."""
    source, partition = f"{event.source}-twin", event.partition + 100
    if isinstance(event, LogEvent):
        fields = dict(event.fields)
        if "job" in fields:
            fields["job"] = fields["job"][::-1]
        if "name" in fields:
            fields["name"] = TWIN
        if "attempt" in fields:
            fields["attempt"] = f"{TWIN}{fields['attempt']}"
        return msgspec.structs.replace(event, source=source, partition=partition, fields=fields)
    samples = [
        msgspec.structs.replace(s, labels={**s.labels, "job_id": s.labels["job_id"][::-1], "job_name": TWIN})
        if "job_id" in s.labels
        else s
        for s in event.samples
    ]
    return msgspec.structs.replace(event, source=source, partition=partition, samples=samples)


encode_resolution = msgspec.json.Encoder().encode
