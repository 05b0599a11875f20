"""What a bucket keeps of its clusters, its silences and overrides, and what it lets go of."""

from typing import Any

import msgspec
import pytest

from detectors.detector import View
from detectors.engine.bucket import BucketIndex, step
from detectors.engine.state import decode_state
from detectors.events.event import LogEvent
from detectors.incidents.silences import MAX_SILENCES
from detectors.kinds.telemetry.unread_records_lost import UnreadRecordsLost
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED
from tests.unit.detectors.changes import Played, live, silence
from tests.unit.detectors.streams import START, log

DAY, WEEK, MINUTE = 86_400_000, 7 * 86_400_000, 60_000


def line(at: int, offset: int = 0, cluster: str = "c", **fields: str) -> LogEvent:
    found = log("job_state", at, offset, lag=0, **{"job": "a" * 32, "name": "orders", "state": "RUNNING", **fields})
    return msgspec.structs.replace(found, cluster=cluster)


def test_a_cluster_without_an_event_for_a_week_is_forgotten_with_all_that_was_kept_of_it() -> None:
    played = Played(live(overrides=[{"job": "orders", "detectors": {"restart_loop": {"enabled": False}}}]))
    played.take(line(0))
    assert list(played.index.deadlines) == ["c"]
    played.take(until=WEEK - 1)
    assert played.store.get("c") is not None
    played.take(until=WEEK)
    assert played.store.get("c") is None
    assert played.index.deadlines == {}


def test_a_cluster_is_stepped_when_its_deadline_comes_and_not_before() -> None:
    played = Played(PUBLISHED)
    triggered = log("checkpoint_triggered", 0, job="a" * 32, checkpoint="1", epoch=str(START))
    played.take(triggered)
    due = played.index.deadlines["c"] - START
    before = played.store.get("c")
    played.take(until=due - 1)
    assert played.store.get("c") == before
    played.take(until=due)
    assert played.store.get("c") != before
    assert played.index.deadlines["c"] > START + due


def test_the_clock_of_a_bucket_never_runs_back() -> None:
    played = Played(PUBLISHED)
    played.take(line(0), until=5 * MINUTE)
    played.take(line(MINUTE, 1), until=MINUTE)
    assert played.index.clock == START + 5 * MINUTE
    assert decode_state(played.store.get("c") or b"").clock == START + 5 * MINUTE


def read_up(at: int, offset: int) -> LogEvent:
    """A line that only `unread_records_lost` takes."""
    return log("input_read_up", at, offset, lag=0, topic="flink.logs", partition=str(offset))


def test_an_event_far_ahead_of_the_stream_is_taken_as_a_minute_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer whose clock is an hour ahead gives no detector its clock."""
    taken: list[int] = []

    def fact(self: Any, view: View[Any, Any], *_: object) -> None:
        taken.append(view.clock - START)

    monkeypatch.setattr(UnreadRecordsLost, "fact", fact)
    index, store = BucketIndex(published=PUBLISHED), MemoryStore()
    ahead = [read_up(at, n) for n, at in enumerate((0, MINUTE, 60 * MINUTE))]
    step(index, store, ahead, START)
    assert taken == [0, MINUTE, MINUTE]
    assert index.clock == START
    assert decode_state(store.get("c") or b"").last_event == START


def test_events_are_taken_in_order_of_arrival_however_the_batch_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, str, int, int]] = []

    def fact(self: Any, view: View[Any, Any], *_: object) -> None:
        event = view.event
        taken.append((event.timestamp - START, event.topic, event.partition, event.offset))

    monkeypatch.setattr(UnreadRecordsLost, "fact", fact)
    places = [(5, "b", 0, 0), (5, "a", 1, 0), (5, "a", 0, 7), (5, "a", 0, 3), (1, "b", 9, 9)]
    batch = [
        msgspec.structs.replace(
            read_up(at, offset), topic=topic, partition=partition, text=f"{topic} {partition} {offset}"
        )
        for at, topic, partition, offset in places
    ]
    step(BucketIndex(published=PUBLISHED), MemoryStore(), batch, START + 10)
    assert taken == sorted(places)


def full(played: Played, ended_at: int) -> None:
    """As many silences as there is room for; one of them ends at `ended_at`."""
    many = [silence(DAY, id=f"s{n}") for n in range(MAX_SILENCES - 1)]
    assert played.change(*many, silence(ended_at, id="ended")) == 0


def test_a_silence_that_has_ended_is_kept_for_a_day_while_there_is_room() -> None:
    played = Played(live())
    full(played, 30_000)
    played.take(until=30_000)
    played.change(silence(2 * DAY, id="s0"))
    assert "ended" in played.index.silences
    assert len(played.index.silences) == MAX_SILENCES


def test_where_there_is_none_one_that_has_ended_gives_way_at_that_very_time() -> None:
    played = Played(live())
    full(played, 30_000)
    played.take(until=30_000)
    assert played.change(silence(2 * DAY, id="new")) == 0
    assert "ended" not in played.index.silences
    assert "new" in played.index.silences


def test_one_that_is_ended_by_hand_gives_way_to_one_of_the_same_batch() -> None:
    played = Played(live())
    full(played, DAY)
    played.take(until=30_000)
    assert played.change(silence(29_000, id="s0"), silence(2 * DAY, id="new"), silence(DAY, id="too many")) == 1
    assert "new" in played.index.silences
    assert "s0" not in played.index.silences


def test_a_silence_is_forgotten_a_day_after_its_end() -> None:
    for clock, kept in ((30_000 + DAY - 1, True), (30_000 + DAY, False)):
        played = Played(live())
        played.change(silence(30_000, id="old"))
        played.take(line(0), until=clock)
        played.change(silence(3 * DAY, id="new"))
        assert ("old" in played.index.silences) is kept


def test_a_change_steps_every_cluster_and_the_same_again_steps_none() -> None:
    played = Played(live())
    played.take(line(0), line(0, 1, "d"))
    before = dict(played.index.deadlines)
    played.change(live())
    assert played.index.deadlines == before
    played.change(silence(DAY))
    assert played.index.deadlines == {"c": 0, "d": 0}
    played.take(until=MINUTE)
    again = dict(played.index.deadlines)
    played.change(silence(DAY))
    assert played.index.deadlines == again
