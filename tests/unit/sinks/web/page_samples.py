"""Incidents to render: one with many changes, and one whose every text is hostile."""

from typing import Any

from msgspec.structs import replace

from detectors.incident import (
    Evidence,
    Finding,
    Forecast,
    KnownIssue,
    LateArrival,
    Recurrence,
    Series,
    Silenced,
    Transition,
)
from sinks.web.page_context import EarlierIncident, PageContext, SentNotification, ThresholdInForce
from tests.unit.sinks.samples import OPENED_AT, SINCE, adjustment, late_acks_finding, make_transition, overdue_finding

MINUTE = 60_000
KEYS = ("cluster", "job_id", "job_name", "task", "tm_id", "host", "checkpoint")
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[31mred\u202egnp.exe\u2066 {{7*7}} \x00"
HUGE = "org.example." + "VeryLongClassName$" * 3_000


def numbers(count: int = 64) -> Series:
    return Series(
        "checkpoint duration",
        "s",
        [(SINCE + i * MINUTE, 1.0 + i / 3) for i in range(count)],
        threshold=30.0,
        fit=[(SINCE, 1.0), (SINCE + count * MINUTE, 22.0)],
        failed=[(SINCE + 5 * MINUTE, 20.0)],
    )


def chain(**changes: Any) -> list[Transition]:
    """Three changes of an incident: a hung checkpoint, the TaskManager behind it, and the end."""
    forecast = Forecast("The checkpoint expires", SINCE + 600_000, SINCE + 590_000, SINCE + 615_000)
    overdue = overdue_finding(series=numbers(12), forecast=forecast, evidence=make_transition().evidence)
    late = late_acks_finding(evidence=[Evidence("jobmanager.log", 0, 17, SINCE, "Received late message")])
    closed = overdue_finding(closed_at=OPENED_AT + 90_000, closed_because="checkpoint 4713 completed in 9.8 s")
    named: dict[str, Any] = {"cause": "late_barrier_acks", "severity": "critical", "summary": late.summary}
    first = make_transition(findings=[overdue], **changes)
    second = make_transition(
        seq=2,
        transition="updated",
        at=OPENED_AT + 60_000,
        reason="the cause is now known to be late_barrier_acks",
        findings=[overdue, late],
        **(named | changes),
    )
    third = make_transition(
        seq=3,
        transition="resolved",
        at=OPENED_AT + 120_000,
        ended_at=OPENED_AT + 100_000,
        reason="checkpoint 4713 completed in 9.8 s",
        findings=[closed, late],
        **(named | changes),
    )
    return [first, second, third]


def many(count: int = 60, findings: int = 20, *, text: str = "") -> list[Transition]:
    """An incident with `count` changes and as many findings as an incident lists; `text` is in every field."""
    found = [_finding(i, text) for i in range(findings)]
    return [_one_of_many(seq, found, text) for seq in range(1, count + 1)]


def _finding(i: int, text: str) -> Finding:
    words = text or "the heap of this TaskManager is 97% full after every collection and grows by 12 MB per minute"
    name = f"{text}{i}"
    return Finding(
        kind=text or ("heap_exhaustion" if i % 2 else "taskmanager_lost"),
        subject=name,
        entity=dict.fromkeys(KEYS, name),
        since=SINCE + i * 1_000,
        at=OPENED_AT,
        severity="critical",
        summary=words,
        evidence=[Evidence(text or "flink.logs", i, n, SINCE + n, words) for n in range(5)],
        forecast=Forecast(text or "the heap is full", OPENED_AT + MINUTE, OPENED_AT, OPENED_AT + 2 * MINUTE),
        series=Series(text or f"heap {i}", text or "bytes", [(SINCE + n * 999, n * i * 1e9) for n in range(64)]),
        advice=words,
        closed_at=OPENED_AT + 5 if i == 3 else None,
        closed_because=text,
    )


def _one_of_many(seq: int, base: list[Finding], text: str) -> Transition:
    at = OPENED_AT + seq * MINUTE
    found = [replace(one, at=at, summary=one.summary if text else f"{one.summary} {seq}") for one in base]
    return make_transition(
        incident=text or "9f2c41d07b3e",
        seq=seq,
        transition="opened" if seq == 1 else "updated",
        at=at,
        cluster=text or "prod-eu",
        cause=found[0].kind,
        summary=found[0].summary,
        findings=found,
        evidence=found[0].evidence,
        job_id=text or "a1b2c3",
        job_name=text or "orders-enrichment",
        advice=f"{found[0].advice} {seq}",
        reason=f"new finding: {text or seq}",
        forecast=found[0].forecast,
        config=text or "c0ffee12",
        silence=Silenced(text or "s1", at, text or "ann", text or "backfill"),
        recurrence=Recurrence(3, SINCE, 3_600_000, steady=True),
        known_issue=KnownIssue(*[text or "FLINK-1"] * 6),
        merged=[text or "0123456789ab"] * 20,
        more=7,
        late=LateArrival(SINCE, SINCE + 5, at),
        adjustments=[replace(adjustment(text or "20 min", text), at=OPENED_AT)],
    )


def hostile_context(text: str) -> PageContext:
    return PageContext(
        earlier=[EarlierIncident(text, text, SINCE)],
        notifications=[SentNotification(text, OPENED_AT, 1, text, text)],
        thresholds=[ThresholdInForce(text, text, "1", text, text)],
        files=frozenset({text}),
        incident_address="{incident}.html",
    )
