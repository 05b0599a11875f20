"""Metrics that some releases of Flink report wrongly open no incident that the right ones do not open.

docs/inputs.md lists the defects. Each changes the scrapes of the recordings as the defect would.
"""

from collections.abc import Callable
from functools import cache

import msgspec
import pytest

from detectors.events.event import Event, MetricEvent, Sample
from tests.recorded import NAMES, events, truth
from tests.unit.detectors.story import MINUTE
from tests.unit.detectors.streams import in_order, run

SCRAPED = tuple(n for n in NAMES if any(isinstance(e, MetricEvent) for e in events(n)))
HEALTHY = tuple(n for n in SCRAPED if not truth(n))
# A false alarm in a healthy job is the risk; what else an incident might become is looked at with the slow tests.
EACH = [n if n in HEALTHY else pytest.param(n, marks=pytest.mark.slow) for n in SCRAPED]

Change = Callable[[MetricEvent], MetricEvent | None]


def kept(keep: Callable[[Sample], bool]) -> Change:
    """Only these samples."""
    return lambda event: msgspec.structs.replace(event, samples=[s for s in event.samples if keep(s)])


def restarts_overwritten() -> Change:
    """FLINK-30558, Flink 1.16.0: `numRestarts` and `fullRestarts` are one object, so only the latter is exported."""
    return kept(lambda sample: sample.name != "restarts")


def sink_counter_renamed() -> Change:
    """FLINK-29567, Flink 1.15.0 to 1.15.2: sinks count `numRecordsSend` only."""
    return kept(
        lambda s: s.name != "operator_records_out" or "sink" not in s.labels.get("operator_name", "").casefold()
    )


def scrapes_fail() -> Change:
    """FLINK-38703, Flink before 1.20.4 and 2.2.1: a scrape of the JobManager fails while TaskManagers come and go."""
    scrapes: dict[str, int] = {}

    def change(event: MetricEvent) -> MetricEvent | None:
        if not any(sample.name == "jm_heap_used" for sample in event.samples):
            return event
        scrapes[event.source] = scrapes.get(event.source, 0) + 1
        return None if scrapes[event.source] % 5 == 0 else event

    return change


def times_counted_twice() -> Change:
    """FLINK-35764, Flink before 1.19.2 and 1.20.1: a long wait counts for another minute after its end."""
    last: dict[tuple[str, ...], tuple[int, float]] = {}

    def reported(sample: Sample, time: int) -> Sample:
        if sample.name != "backpressured_time":
            return sample
        key = tuple(sample.labels.get(name, "") for name in ("tm_id", "task_id", "subtask_index"))
        at, most = last.get(key, (0, 0.0))
        if sample.value >= most or time - at > MINUTE:
            last[key] = time, sample.value
            return sample
        return msgspec.structs.replace(sample, value=most)

    return lambda event: msgspec.structs.replace(event, samples=[reported(s, event.time) for s in event.samples])


def reporter_is_missing() -> Change:
    """FLINK-38704, FLINK-37556: the reporter does not listen at its port, or does not start. No metric ever comes."""
    return lambda _: None


def changed(name: str, change: Change) -> list[Event]:
    found = [change(event) if isinstance(event, MetricEvent) else event for event in in_order(events(name))]
    return [event for event in found if event is not None]


def serious(stream: list[Event]) -> set[str]:
    """The causes of incidents that notify someone."""
    return {t.cause for t in run(stream) if t.severity != "info"}


@cache
def right(name: str) -> set[str]:
    return serious(in_order(events(name)))


@pytest.mark.parametrize("made", [restarts_overwritten, sink_counter_renamed, scrapes_fail, times_counted_twice])
@pytest.mark.parametrize("name", EACH)
def test_wrong_metrics_open_no_other_incidents_than_the_right_ones(name: str, made: Callable[[], Change]) -> None:
    assert serious(changed(name, made())) <= right(name)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_whose_metrics_never_come_opens_nothing(name: str) -> None:
    assert serious(changed(name, reporter_is_missing())) == set()
