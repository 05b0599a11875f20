"""What is reported of streams that no Flink would write is as before: a hash of it for each stream and detector.

The scenarios are what happens (`tests/scenarios`, as text); these streams go where they do not: ids that come and go,
times that jump, numbers that cannot be. After an intended change in what is reported:
`python -m pytest tests/unit/detectors/test_unchanged.py -n 0 --regenerate`.
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from detectors import DETECTORS
from detectors.engine import bucket
from detectors.engine.bucket import BucketIndex
from detectors.events.event import Event
from streaming.recordings.replay import MemoryStore
from tests.unfolded import rounded, transitions_text
from tests.unit.detectors.streams import alone, stream

FILE = Path(__file__).with_name("golden") / "made_up.txt"
LENGTH = 80
BATCH = 7
AFTER = (61_000, 2_000_000, 8 * 86_400_000)
EACH = [(d.kind, range(12)) for d in DETECTORS]
TOGETHER = [("all", range(n, n + 4)) for n in range(0, 24, 4)]
"""Longer streams for all detectors together, where incidents of many findings live long."""


def batches(stream: list[Event]) -> Iterator[list[Event]]:
    rest = iter(stream)
    while batch := list(islice(rest, BATCH)):
        yield batch


def reported(kind: str, seed: int) -> str:
    """What one detector, or all, report of the stream of a seed: numbers, and a hash of all of it."""
    detector = next((d for d in DETECTORS if d.kind == kind), None)
    events = stream(seed, LENGTH, detector.event_types) if detector else stream(seed, 3 * LENGTH, ())
    index, store = BucketIndex(published=alone(kind if detector else "")), MemoryStore()
    steps = [bucket.step(index, store, batch, max(e.timestamp for e in batch)) for batch in batches(events)]
    steps += [bucket.step(index, store, [], events[-1].timestamp + after) for after in AFTER]
    transitions = [t for reported in steps for t in reported.transitions]
    readings = [(r.key(), r.at, r.type, rounded(r.value)) for reported in steps for r in reported.readings]
    gone = [reported.removed for reported in steps]
    digest = sha256(msgspec.json.encode((transitions_text(transitions), readings, gone))).hexdigest()[:12]
    left = sum(map(len, gone))
    return f"{kind} {seed:2}: {len(transitions)} transitions, {len(readings)} readings, {left} gone, {digest}\n"


@pytest.mark.parametrize(("kind", "seeds"), [*EACH, *TOGETHER], ids=lambda x: x if isinstance(x, str) else str(x[0]))
def test_what_is_reported_of_made_up_streams_is_as_before(
    kind: str, seeds: range, request: pytest.FixtureRequest
) -> None:
    found = [reported(kind, seed) for seed in seeds]
    known = FILE.read_text(encoding="utf-8").splitlines(keepends=True) if FILE.exists() else []
    if request.config.getoption("--regenerate"):
        names = {line.partition(":")[0] for line in found}
        known = sorted([*(line for line in known if line.partition(":")[0] not in names), *found])
        FILE.write_text("".join(known), encoding="utf-8")
    assert [line for line in found if line not in known] == []
