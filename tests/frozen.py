"""Writes records and state as a release has them into `tests/fixtures/RELEASE`: `python -m tests.frozen 0.1`.

Every later release proves with them that it reads what this one has written.

Only a release runs this. The folder of a release that is out is never written again.
"""

import base64
import gzip
import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from detectors import DETECTORS
from detectors.engine import bucket
from detectors.engine.bucket import INDEX_FORMAT, BucketIndex, encode_index
from detectors.engine.fold import STATES
from detectors.engine.state import STATE_FORMAT, ClusterState, decode_state
from detectors.incident import READING_FORMAT, TRANSITION_FORMAT, Reading, Transition
from detectors.incidents.silences import Silence
from detectors.settings.live import (
    CONFIGURATION_FORMAT,
    RESOLUTION_FORMAT,
    SILENCE_FORMAT,
    PublishedResolution,
    publish_silence,
)
from detectors.values.stored_format import StoredFormat
from sinks.contract.digest import Folded
from sinks.contract.feedback import FEEDBACK_FORMAT, Feedback, Mark, Marks
from sinks.contract.notified import notified_state
from sinks.delivery.notification_log import ENTRY_FORMAT, Entry
from streaming.recordings.replay import MemoryStore
from tests.recorded import NAMES, PUBLISHED, events, recording

FIXTURES = Path(__file__).with_name("fixtures")
FORMATS: tuple[StoredFormat[Any], ...] = (
    STATE_FORMAT,
    INDEX_FORMAT,
    TRANSITION_FORMAT,
    READING_FORMAT,
    CONFIGURATION_FORMAT,
    SILENCE_FORMAT,
    RESOLUTION_FORMAT,
    FEEDBACK_FORMAT,
    ENTRY_FORMAT,
)
_AT = 1_790_000_000_000


class FrozenState(NamedTuple):
    """The smallest state, over all scenarios, in which a finding of `kind` is open."""

    kind: str
    cluster: str
    data: bytes
    index: BucketIndex
    transition: Transition


def meaning(state: ClusterState) -> dict[str, Any]:
    """What a migration must keep of a state: what is open since when, what is due, which detectors know something."""
    return {
        "clock": state.clock,
        "incidents": [
            [i.id, i.seq, i.opened_at, sorted([f.kind, f.subject, f.since] for f in i.findings)]
            for i in state.incidents
        ],
        "deadlines": state.deadlines,
        "detectors": sorted(state.detectors),
        "jobs": sorted(state.topology.jobs),
    }


def shape(kind: Any) -> Any:
    """The encoded form of a type, without the names of classes: its fields with their types, and which are required."""
    info = kind if isinstance(kind, msgspec.inspect.Type) else msgspec.inspect.type_info(kind)
    match info:
        case msgspec.inspect.StructType():
            fields = [[f.encode_name, shape(f.type), "required" if f.required else "optional"] for f in info.fields]
            return {"form": "array" if info.array_like else "map", "tag": info.tag, "fields": fields}
        case msgspec.inspect.DataclassType() | msgspec.inspect.NamedTupleType():
            fields = [[f.encode_name, shape(f.type), "required" if f.required else "optional"] for f in info.fields]
            return {"form": type(info).__name__, "fields": fields}
        case msgspec.inspect.UnionType():
            return {"any of": [shape(one) for one in info.types]}
        case msgspec.inspect.DictType():
            return {"dict": [shape(info.key_type), shape(info.value_type)]}
        case msgspec.inspect.TupleType():
            return {"tuple": [shape(one) for one in info.item_types]}
        case msgspec.inspect.CollectionType():
            return {"list": shape(info.item_type)}
        case msgspec.inspect.LiteralType():
            return {"one of": list(info.values)}
        case _:
            return type(info).__name__.removesuffix("Type").lower()


def shapes() -> dict[str, Any]:
    """The form of every format by its name, with the state of each detector under `state of KIND`."""
    found = {one.name: shape(one.kind) for one in FORMATS}
    return found | {f"state of {d.kind}": shape(STATES[d.kind]) for d in DETECTORS}


def states() -> list[FrozenState]:
    """One state for each kind of finding that a scenario has, by the kind's name."""
    found: dict[str, FrozenState] = {}
    for name in sorted(NAMES, key=lambda name: recording(name).stat().st_size):
        for one in _states_of(name):
            if one.kind not in found or len(one.data) < len(found[one.kind].data):
                found[one.kind] = one
    return [found[kind] for kind in sorted(found)]


def _states_of(name: str) -> Iterator[FrozenState]:
    index, store = BucketIndex(published=PUBLISHED), MemoryStore()
    clock = 0
    for second, batch in groupby(events(name), key=lambda event: event.timestamp // 1_000):
        clock = max(clock, (second + 1) * 1_000)
        output = bucket.step(index, store, list(batch), clock)
        for transition in output.transitions:
            data = store.get(transition.cluster)
            if transition.transition == "opened" and data is not None:
                for kind in {f.kind for f in transition.findings}:
                    yield FrozenState(kind, transition.cluster, data, _copy(index), transition)


def _copy(index: BucketIndex) -> BucketIndex:
    return bucket.decode_index(encode_index(index))


def records(transition: Transition) -> Iterator[tuple[StoredFormat[Any], Any]]:
    """A record of each format in Kafka."""
    yield TRANSITION_FORMAT, transition
    labels = {"cluster": transition.cluster, "tm": "taskmanager-1"}
    yield READING_FORMAT, Reading(name="gc_time_ratio", labels=labels, value=0.25, at=_AT)
    yield CONFIGURATION_FORMAT, PUBLISHED
    silence = Silence(id="backfill", cluster="prod-*", until="2026-12-01T06:00:00Z", author="ann", comment="backfill")
    yield SILENCE_FORMAT, publish_silence(silence, _AT, "ann")
    yield RESOLUTION_FORMAT, PublishedResolution(transition, _AT, "ann", "the cluster was taken down")
    yield (
        FEEDBACK_FORMAT,
        Feedback(
            incident=transition.incident, answer="not_an_incident", person="ann", user="U1", at=_AT, words="a drill"
        ),
    )
    yield (
        ENTRY_FORMAT,
        Entry(
            incident=transition.incident,
            seq=3,
            state="sent",
            at=_AT,
            channel="C1",
            ts="17.5",
            notified=notified_state(transition),
            offset=12,
            folded=Folded(_AT, "checkpoint_overdue", "prod", "orders", "critical", _AT),
            marks=Marks(acknowledged=Mark("ann", _AT)),
        ),
    )


def _line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)


def freeze(release: str) -> None:
    """Write the folder of a release."""
    folder = FIXTURES / release
    folder.mkdir(parents=True, exist_ok=True)
    found = states()
    lines = [
        _line(
            kind=s.kind,
            cluster=s.cluster,
            data=base64.b64encode(s.data).decode(),
            meaning=meaning(decode_state(s.data)),
        )
        for s in found
    ]
    (folder / "states.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    first = min(found, key=lambda s: len(s.data))
    kept = [(INDEX_FORMAT, first.index), *records(first.transition)]
    lines = []
    for form, record in kept:
        data = encode_index(record) if form is INDEX_FORMAT else msgspec.json.encode(record)
        lines.append(_line(format=form.name, data=base64.b64encode(data).decode(), meaning=msgspec.to_builtins(record)))
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with gzip.GzipFile(folder / "shapes.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(shapes(), indent=1).encode())


if __name__ == "__main__":
    freeze(sys.argv[1])
