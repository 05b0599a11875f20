"""State that another version wrote, or that is damaged: refused as a whole, or lost for one detector alone."""

import zlib
from typing import Any

import msgspec
import pytest

from detectors import DETECTORS
from detectors.engine import fold
from detectors.engine.bucket import INDEX_VERSION, BucketIndex, BucketOutput, decode_index, encode_index, step
from detectors.engine.engine import Engine
from detectors.engine.fold import DroppedState
from detectors.engine.state import STATE_VERSION, ClusterState, StateVersionError, decode_state, encode_state
from detectors.events.event import Event
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED, events
from tests.unit.detectors.engine.test_bisect_failures import spoilt
from tests.unit.detectors.streams import START, alone, in_order, log

KIND = "checkpoint_overdue"
CLUSTER = "clickstream"
UNREADABLE = msgspec.Raw(msgspec.msgpack.encode("a state of another version"))
STREAM = in_order(events("late-barrier-acks"))
MIDDLE = len(STREAM) * 6 // 10


@pytest.mark.parametrize("version", [0, STATE_VERSION - 1, STATE_VERSION + 1])
def test_the_state_of_a_cluster_of_an_older_or_a_newer_version_is_refused(version: int) -> None:
    with pytest.raises(StateVersionError, match=f"version {version}, .* version {STATE_VERSION}"):
        decode_state(zlib.compress(msgspec.msgpack.encode({"version": version})))


@pytest.mark.parametrize("version", [0, INDEX_VERSION + 1])
def test_the_index_of_a_bucket_of_an_older_or_a_newer_version_is_refused(version: int) -> None:
    with pytest.raises(StateVersionError, match=f"version {version}, .* version {INDEX_VERSION}"):
        decode_index(msgspec.msgpack.encode({"version": version}))


def test_damaged_bytes_are_refused_and_never_taken_for_another_state() -> None:
    kept = ClusterState(clock=7, readings={"a": b"b"})
    whole = encode_state(kept)
    for i in range(len(whole)):
        for damaged in (whole[:i], whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :]):
            try:
                assert decode_state(damaged) == kept  # bits of the header of zlib that say nothing
            except StateVersionError:
                continue
    with pytest.raises(StateVersionError):
        decode_index(encode_index(BucketIndex())[:-1])


class Stepped:
    """A bucket that is stepped, and all that it says."""

    def __init__(self, published: Any = PUBLISHED) -> None:
        self.index, self.store = BucketIndex(published=published), MemoryStore()

    def step(self, batch: list[Event]) -> BucketOutput:
        return step(self.index, self.store, batch, max(e.timestamp for e in batch))

    def spoil(self, *kinds: str) -> None:
        """Exchange the states of detectors for what cannot be read."""
        state = decode_state(self.store.get(CLUSTER) or b"")
        state.detectors = {k: UNREADABLE if k in kinds else raw for k, raw in state.detectors.items()}
        self.store.put(CLUSTER, encode_state(state))


def test_a_detectors_state_that_cannot_be_read_is_lost_alone_and_reported_once() -> None:
    whole, spoilt_one = Stepped(), Stepped()
    for stepped in (whole, spoilt_one):
        stepped.step(STREAM[:MIDDLE])
    spoilt_one.spoil("restart_loop")
    output, expected = spoilt_one.step(STREAM[MIDDLE:]), whole.step(STREAM[MIDDLE:])
    assert expected.transitions
    assert output.transitions == expected.transitions  # it had found nothing
    assert output.defects == []
    ((cluster, kind, error),) = output.dropped
    assert (cluster, kind) == (CLUSTER, "restart_loop")
    assert "Expected `" in error
    assert expected.dropped == []


def test_what_it_had_found_ends_with_that_reason_and_is_found_again() -> None:
    opened = Stepped(alone(KIND)).step(STREAM).transitions[0]
    seen = sum(e.timestamp <= opened.at for e in STREAM) + 1
    stepped = Stepped(alone(KIND))
    assert stepped.step(STREAM[:seen]).transitions == [opened]
    stepped.spoil(KIND)
    output = stepped.step(STREAM[seen:])
    assert [d.kind for d in output.dropped] == [KIND]
    assert output.defects == []
    back = output.transitions[0]
    assert (back.incident, back.transition, back.reason) == (opened.incident, "updated", f"{KIND} recurred")
    quiet = Stepped(alone(KIND))
    quiet.step(STREAM[:seen])
    quiet.spoil(KIND)
    at = STREAM[seen].timestamp - START
    other = log("checkpoint_completed", at, 10**6, job="b" * 32, checkpoint="3", duration="5", bytes="1")
    quiet.step([msgspec.structs.replace(other, cluster=CLUSTER)])
    last = step(quiet.index, quiet.store, [], STREAM[seen].timestamp + 120_000).transitions[-1]
    why = f"flinkwatch could not read the stored state of {KIND} and restarted the detector without it"
    assert (last.transition, last.reason) == ("resolved", why)


def test_it_is_reported_once_also_where_an_event_makes_a_detector_fail() -> None:
    """The batch is then stepped in halves, each from the state before it."""
    stepped = Stepped()
    stepped.step(STREAM[:MIDDLE])
    stepped.spoil(KIND)
    output = stepped.step([*STREAM[MIDDLE:], spoilt(STREAM[MIDDLE + 40])])
    assert len(output.defects) == 1
    assert [d.kind for d in output.dropped] == [KIND]
    assert stepped.step(STREAM[-1:]).dropped == []


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.kind)
@pytest.mark.parametrize("raw", [b"\xc0", b"\x91", b"\xa1x", b"\x93\xff\xff\xff", b"\x81\xa1a\xc0"])
def test_whatever_stands_there_no_detector_fails_on_it(detector: Any, raw: bytes) -> None:
    settings = alone(detector.kind).live().detectors
    engine, state = Engine(settings), ClusterState()
    state.detectors[detector.kind], state.deadlines[detector.kind] = msgspec.Raw(raw), STREAM[0].timestamp
    (dropped,) = fold.step(engine, "c", state, [], STREAM[0].timestamp + 1_000).dropped
    assert (dropped.cluster, dropped.kind) == ("c", detector.kind)
    assert isinstance(dropped, DroppedState)
    assert fold.step(engine, "c", state, STREAM[:50], STREAM[50].timestamp).dropped == ()
