"""Readings are of what is: their series end with their entity."""

from detectors.engine import bucket
from detectors.events.event import Event
from streaming.recordings.replay import MemoryStore
from tests.unit.detectors.story import SECOND, story
from tests.unit.detectors.streams import START

GOES_ON, GOES = "tm-1:6122-aaaaaa", "tm-2:6122-bbbbbb"
GONE = "tm_2:6122_bbbbbb"


def test_the_readings_of_a_taskmanager_end_minutes_after_its_last_sample() -> None:
    """Sawtooths of two TaskManagers for ten minutes; one of them goes on for ten more."""
    index, store, standing = bucket.BucketIndex(), MemoryStore(), set[str]()

    def feed(events: list[Event], until: int) -> None:
        reported = bucket.step(index, store, events, START + until)
        standing.update(r.key() for r in reported.readings)
        standing.difference_update(reported.removed)

    def sawtooth(n: int, *tms: str) -> list[Event]:
        history = story("heap_exhaustion").at(n * 10 * SECOND)
        for tm in tms:
            history.heap(200 + 60 * (n % 8), 10.0 * n, n // 8, tm=tm)
        return history.events

    for n in range(60):
        feed(sawtooth(n, GOES_ON, GOES), n * 10_000 + 100)
    names = {key.partition("|")[0] for key in standing if GONE in key}
    assert {"gc_time_ratio", "heap_floor_bytes", "last_sample_timestamp_seconds"} <= names
    for n in range(60, 120):
        feed(sawtooth(n, GOES_ON), n * 10_000 + 100)
    assert not [key for key in standing if GONE in key and "last_sample" not in key]
    assert [key for key in standing if "tm_1:6122_aaaaaa" in key]
