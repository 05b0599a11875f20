"""The scenarios, as records, as events, and as what a replay of them says."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from detectors.engine.replay_clock import trusted_clock
from detectors.events.event import Event, Record, Rejected
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.incident import SEVERITIES, Transition
from detectors.settings.live import LiveSettings, PublishedConfiguration, publish
from streaming.recordings.recorded_arrivals import source_of
from streaming.recordings.replay import AFTER_MS, load, run

SCENARIOS = Path(__file__).with_name("scenarios")
NAMES = tuple(sorted(p.parent.name for p in SCENARIOS.glob("*/input.jsonl*")))
PUBLISHED = publish(LiveSettings(), 0, "tests")
READER = Reader(Identity(), frozenset({"flink.metrics"}))


def recording(name: str) -> Path:
    """The records of a scenario: plain text up to 200 kB, else gzip."""
    return next((SCENARIOS / name).glob("input.jsonl*"))


@cache
def records(name: str) -> tuple[Record, ...]:
    """The Kafka records of a scenario in order of arrival."""
    return tuple(load([recording(name)], "flink.logs", "flink.metrics"))


@cache
def truth(name: str) -> list[dict[str, Any]]:
    """What is known to have happened in a scenario, written by hand; empty: it is healthy."""
    file = SCENARIOS / name / "expected.yaml"
    found: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))["truth"] if file.exists() else []
    return found


@cache
def events(name: str) -> tuple[Event, ...]:
    """The events of a scenario in order of arrival; nothing is rejected but blank lines without a byte."""
    found: list[Event] = []
    for record in records(name):
        read = READER.read(record)
        if isinstance(read, Rejected):
            assert record.value == b"", f"{name}: {record.topic}/{record.partition}/{record.offset}: {read.detail}"
            continue
        found += read
    return tuple(found)


def replay(
    records: list[Record],
    reader: Reader,
    published: PublishedConfiguration,
    config_topic: str = "",
    after_ms: int = AFTER_MS,
) -> Iterator[Transition]:
    """The transitions of records given in order of arrival."""
    read = [[] if r.topic == config_topic else reader.read(r) for r in records]
    moving = [(r, found) for r, found in zip(records, read, strict=True) if r.topic != config_topic]
    clocks = iter(trusted_clock([(source_of(r, found), r.timestamp) for r, found in moving]))
    arrived = (
        (0 if r.topic == config_topic else next(clocks), r, found) for r, found in zip(records, read, strict=True)
    )
    return run(arrived, published, config_topic, after_ms=after_ms)


def said(given: Iterable[Record]) -> list[Transition]:
    """The transitions of a replay under the default settings."""
    return list(replay(list(given), READER, PUBLISHED))


def summary(transitions: Iterable[Transition]) -> list[dict[str, Any]]:
    """The incidents of a replay, one entry each in order of opening: what an operator would hold against the truth."""
    by_id: dict[str, list[Transition]] = {}
    for transition in transitions:
        by_id.setdefault(transition.incident, []).append(transition)
    return [_incident(own) for own in by_id.values()]


def _incident(own: list[Transition]) -> dict[str, Any]:
    first, last = own[0], own[-1]
    cause = next(f for f in last.findings if f.kind == last.cause and f.summary == last.summary)
    ended = last.transition in ("resolved", "stale")
    return {
        "cause": last.cause,
        "cluster": last.cluster,
        "severity": max((t.severity for t in own), key=SEVERITIES.index),
        "opened_as": first.cause,
        "opened_at": first.at,
        "named_at": next(t.at for t in own if t.cause == last.cause),
        "end": "merged" if last.part_of else last.transition if ended else "open",
        "ended_at": last.at if ended else None,
        "transitions": [t.transition for t in own],
        "findings": sorted(f.kind for f in last.findings),
        "entity": {k: v for k, v in sorted(cause.entity.items()) if v},
        "summary": last.summary,
    }
