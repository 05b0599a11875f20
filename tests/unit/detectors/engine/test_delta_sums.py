"""Increases become current values, each once, in bounded state that outlives a restart."""

from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.engine import delta_sums
from detectors.engine.delta_sums import DeltaSums
from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.events.event import Event, MetricEvent, Record, Rejected, Sample
from detectors.events.reader import Reader
from tests.recorded import PUBLISHED, READER, records, replay, said, summary

NOW = 1_795_221_254_563


def page(*samples: Sample, at: int = NOW) -> MetricEvent:
    return MetricEvent("c", "s", "h", at, at, "flink.metrics", 0, 0, list(samples))


def added(value: float, until: int, tm: str = "t", name: str = "records_in") -> Sample:
    return Sample(name, {"tm_id": tm, "subtask_index": "0"}, value, until)


def values(sums: DeltaSums, *samples: Sample, at: int = NOW) -> list[float]:
    return [s.value for s in sums.summed(page(*samples, at=at)).samples]


def test_increases_add_up_per_series() -> None:
    sums = DeltaSums()
    assert values(sums, added(3, NOW), added(5, NOW, "u"), added(7, NOW, name="records_out")) == [3, 5, 7]
    assert values(sums, added(4, NOW + 1), added(0, NOW + 1, "u")) == [7, 5]
    assert values(sums, added(1, NOW + 2), added(2, NOW + 3)) == [8, 10]


def test_current_values_stay_as_they_are() -> None:
    event = page(Sample("records_in", {}, 3.0), Sample("heap_used", {}, 5.0))
    assert DeltaSums().summed(event) is event
    sums = DeltaSums()
    assert values(sums, Sample("heap_used", {}, 5.0), added(3, NOW)) == [5, 3]
    assert sums.summed(page(added(3, NOW + 1))).samples[0].until == 0


def test_an_interval_that_was_sent_again_adds_nothing() -> None:
    sums = DeltaSums()
    assert values(sums, added(3, NOW)) == [3]
    assert values(sums, added(3, NOW)) == []
    assert values(sums, added(3, NOW - 60_000)) == []
    assert values(sums, added(1, NOW + 60_000)) == [4]


def test_a_point_far_in_the_future_does_not_end_its_series() -> None:
    sums = DeltaSums()
    values(sums, added(3, NOW + 10**12))
    assert values(sums, added(3, NOW + 3_600_000), at=NOW + 3_600_000) == [6]
    # A host whose clock is always ahead is read too.
    assert values(sums, added(1, NOW + 10**12), at=NOW + 7_200_000) == [7]


def test_sums_outlive_a_restart() -> None:
    state = ClusterState()
    values(state.deltas, added(3, NOW), added(0.5, NOW, "u"))
    again = decode_state(encode_state(state))
    assert values(again.deltas, added(4, NOW + 1), added(1, NOW + 1, "u")) == [7, 1.5]


def test_the_state_of_an_earlier_version_is_read() -> None:
    body = msgspec.to_builtins(ClusterState())
    del body["deltas"]
    assert msgspec.convert(body, ClusterState).deltas == DeltaSums()


def test_series_are_bounded_and_those_of_ended_processes_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_sums, "_MAX_SERIES", 2)
    sums = DeltaSums()
    assert values(sums, added(1, NOW, "a"), added(1, NOW, "b"), added(1, NOW, "c")) == [1, 1]
    # One that has no room must not begin with 0 again and again: it is left out.
    assert values(sums, added(1, NOW + 1, "c"), added(1, NOW + 1, "b")) == [2]
    later = NOW + 3_600_002
    assert values(sums, added(1, later, "c"), at=later) == [1]
    assert values(sums, added(1, later + 1, "c"), added(1, later + 1, "b"), at=later + 1) == [2, 3]
    assert len(sums.series) == 2


class OfIncreases:
    """Reads records like the product, and turns each counter into increases, as Flink's own reporter sends them."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def read(self, record: Record) -> list[Event] | Rejected:
        found = READER.read(record)
        if isinstance(found, Rejected):
            return found
        return [self._increases(e) if isinstance(e, MetricEvent) else e for e in found]

    def _increases(self, event: MetricEvent) -> MetricEvent:
        samples = []
        for sample in event.samples:
            key = f"{sample.name} {sorted(sample.labels.items())}"
            before, self._last[key] = self._last.get(key, 0.0), sample.value
            # A counter that is smaller than before began again with 0.
            more = sample.value - before if sample.value >= before else sample.value
            samples.append(Sample(sample.name, sample.labels, more, event.time) if sample.name in COUNTERS else sample)
        return msgspec.structs.replace(event, samples=samples)


COUNTERS = {"records_in", "records_out", "operator_records_in", "operator_records_out", "commits_succeeded"}


@pytest.mark.parametrize("name", ["zero-input-leak", "zero-input-fixed", "backpressure-slow-sink"])
def test_a_recording_whose_counters_are_increases_has_the_same_incidents(name: str) -> None:
    replayed = replay(list(records(name)), cast(Reader, OfIncreases()), PUBLISHED)
    assert summary(replayed) == summary(said(records(name)))


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.integers(1, 2**63)), max_size=20))
def test_no_increase_raises_or_leaves_the_range_of_a_sample(given_: list[tuple[float, int]]) -> None:
    state = ClusterState()
    for value, until in given_:
        for result in values(state.deltas, added(value, until)):
            assert abs(result) <= 2.0**53
    decode_state(encode_state(state))
