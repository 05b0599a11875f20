"""The table of needs agrees with what the detectors subscribe to, and without a metric its kinds are really blind."""

import msgspec
import pytest

from detectors import DETECTORS
from detectors.engine.replay_clock import trusted_clock
from detectors.events.event import Event, MetricEvent, Rejected
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.events.vocabulary.metric_names import NAMES
from detectors.settings.live import LiveSettings, publish
from streaming.inspection.metric_needs import NEEDS, MetricNeed, missing, without_metrics
from streaming.recordings.recorded_arrivals import source_of
from streaming.recordings.replay import Arrived, run
from tests.recorded import records

HANDLERS = {detector.kind: set(detector.handlers) for detector in DETECTORS}
SCENARIOS = {
    "backpressure": "backpressure-slow-sink",
    "lag_growing": "lag-growing",
    "late_records_dropped": "late-records-dropped",
    "task_stuck": "task-stuck-without-checkpoints",
    "watermark_stalled": "watermark-stalled-2.2.1",
}
BLIND = [(need, kind) for need in NEEDS for kind in need.blind]


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.title)
def test_a_need_names_metrics_that_its_kinds_use(need: MetricNeed) -> None:
    for kind in (*need.blind, *need.weaker):
        assert HANDLERS[kind] & need.any_of, kind
    assert need.any_of <= {*NAMES.values(), "gc_time"}


def test_every_kind_that_uses_metrics_is_in_the_table() -> None:
    named = {kind for need in NEEDS for kind in (*need.blind, *need.weaker)}
    others = {"checkpoint_overdue", "clock_skew", "job_missing", "taskmanager_lost"}
    # Those use a metric only to be more certain of what log lines show.
    assert {kind for kind, names in HANDLERS.items() if names & {*NAMES.values()}} == named | others


def test_with_all_metrics_nothing_is_missing_and_without_any_everything_is() -> None:
    everything = {*NAMES.values(), "gc_time"}
    assert missing(everything) == []
    assert missing(()) == [*NEEDS]
    assert without_metrics(everything) == ([], [])
    blind, weaker = without_metrics(())
    assert set(blind) == SCENARIOS.keys()
    assert not {*blind} & {*weaker}


def kinds(name: str, without: frozenset[str]) -> set[str]:
    """The kinds of all findings of a scenario whose records lack some metrics."""
    reader = Reader(Identity(), frozenset({"flink.metrics"}))

    def arrived() -> list[Arrived]:
        found: list[Arrived] = []
        read = [(record, reader.read(record)) for record in records(name)]
        clocks = trusted_clock([(source_of(record, events), record.timestamp) for record, events in read])
        for clock, (record, events) in zip(clocks, read, strict=True):
            kept = events if isinstance(events, Rejected) else [_without(e, without) for e in events]
            found.append((clock, record, kept))
        return found

    published = publish(LiveSettings(), at=0, by="test")
    return {f.kind for t in run(arrived(), published, "flinkwatch.config") for f in t.findings}


def _without(event: Event, names: frozenset[str]) -> Event:
    if not isinstance(event, MetricEvent):
        return event
    return msgspec.structs.replace(event, samples=[s for s in event.samples if s.name not in names])


@pytest.mark.parametrize(("need", "kind"), BLIND, ids=lambda value: getattr(value, "title", value))
def test_a_blind_kind_is_not_found_without_the_metric(need: MetricNeed, kind: str) -> None:
    assert kind in kinds(SCENARIOS[kind], frozenset())
    assert kind not in kinds(SCENARIOS[kind], need.any_of)
