"""A recording dated from now on says the same, that much later."""

import msgspec
import pytest

from detectors.events.event import Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.settings.live import LiveSettings, publish
from streaming.recordings.play import find_scenario
from streaming.recordings.redate import redated
from streaming.recordings.replay import load
from tests.recorded import replay

NOW = 1_900_000_000_123


@pytest.mark.parametrize("scenario", ["late-barrier-acks", "job-failed", "jobmanager-killed"])
def test_the_same_transitions_that_much_later(scenario: str) -> None:
    records = load([find_scenario(scenario)], "flink.logs", "flink.metrics")
    later = list(redated(records, NOW))
    moved = later[0].timestamp - records[0].timestamp
    assert NOW <= later[0].timestamp < NOW + 1000

    def said(recording: list[Record]) -> list[tuple[object, ...]]:
        reader = Reader(Identity(), frozenset({"flink.metrics"}))
        transitions = replay(recording, reader, publish(LiveSettings(), 0, "test"))
        return [(t.at, t.transition, t.cause, t.severity, [f.kind for f in t.findings]) for t in transitions]

    before = said(records)
    assert before
    assert said(later) == [(at + moved, *rest) for at, *rest in before]


def test_only_times_near_the_recording_are_moved() -> None:
    at = 1_795_227_056_250
    value = (
        b'2026-11-21 02:10:56,250 1795227056 1795227056250 1795227056250000000 {"t": 1795227056.5, "z":'
        b' "2026-11-21T02:10:56Z"} '
        b"Date:2024-01-01T00:00:00 2026-13-41 02:10:56 heap 1073741824 x1795227056 17952270567"
    )
    (moved,) = redated([Record("t", 0, 0, at, None, value)], at + 86_400_000)
    assert moved.timestamp == at + 86_400_000
    assert moved.value == (
        b'2026-11-22 02:10:56,250 1795313456 1795313456250 1795313456250000000 {"t": 1795313456.5, "z":'
        b' "2026-11-22T02:10:56Z"} '
        b"Date:2024-01-01T00:00:00 2026-13-41 02:10:56 heap 1073741824 x1795227056 17952270567"
    )


def test_a_record_without_a_value_stays_one() -> None:
    record = Record("t", 0, 0, 1_795_227_056_250, b"k", None)
    assert list(redated([record], record.timestamp)) == [msgspec.structs.replace(record)]
