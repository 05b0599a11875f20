"""Transitions to start from: one chain, a hung checkpoint and the TaskManager behind it."""

from typing import Any

from detectors.incident import Adjustment, ChangedSetting, Evidence, Finding, Forecast, Transition

OPENED_AT = 1_772_373_780_000  # 2026-03-01 14:03:00 UTC
SINCE = OPENED_AT - 96_000


def overdue_finding(**changes: Any) -> Finding:
    """A checkpoint that hangs on one TaskManager."""
    fields: dict[str, Any] = {
        "kind": "checkpoint_overdue",
        "subject": "a1b2c3",
        "entity": {"cluster": "prod-eu", "job_name": "orders-enrichment", "job_id": "a1b2c3", "checkpoint": "4711"},
        "since": SINCE,
        "at": OPENED_AT,
        "severity": "warning",
        "summary": "Checkpoint 4711 is 96 s old; this job's usually take at most 12 s.",
    }
    return Finding(**fields | changes)


def late_acks_finding(**changes: Any) -> Finding:
    """The TaskManager that is to blame."""
    fields: dict[str, Any] = {
        "kind": "late_barrier_acks",
        "subject": "container_e21_1772_0001_01_000007",
        "entity": {
            "cluster": "prod-eu",
            "tm_id": "container_e21_1772_0001_01_000007",
            "host": "node-17",
            "task": "Window(Tumbling) -> Sink",
        },
        "since": SINCE + 4_000,
        "at": OPENED_AT + 60_000,
        "severity": "critical",
        "summary": "4 of 4 late acknowledgements come from one TaskManager.",
    }
    return Finding(**fields | changes)


def adjustment(after: str = "20 min", effect: str = "", *, judged: bool = False) -> Adjustment:
    """The checkpoint timeout was changed ten minutes after the incident opened."""
    at = OPENED_AT + 600_000
    record = Evidence("flink.logs", 3, 130_000, at, "Loading configuration property: …")
    return Adjustment(at, [ChangedSetting("execution.checkpointing.timeout", "10 min", after)], record, effect, judged)


def make_transition(**changes: Any) -> Transition:
    """An incident that has just opened."""
    fields: dict[str, Any] = {
        "incident": "9f2c41d07b3e",
        "seq": 1,
        "transition": "opened",
        "at": OPENED_AT,
        "cluster": "prod-eu",
        "cause": "checkpoint_overdue",
        "severity": "warning",
        "summary": "Checkpoint 4711 is 96 s old; this job's usually take at most 12 s.",
        "findings": [overdue_finding()],
        "evidence": [
            Evidence("flink.logs", 3, 120_455, SINCE, "Triggering checkpoint 4711 (type=CHECKPOINT) @ 1772373684000"),
            Evidence("flink.logs", 3, 120_391, SINCE - 60_000, "Completed checkpoint 4710 for job a1b2c3 in 11034 ms."),
        ],
        "job_id": "a1b2c3",
        "job_name": "orders-enrichment",
        "advice": "Look at the subtasks that have not acknowledged in Flink's page of this checkpoint. If they are "
        "backpressured, find the slow operator behind them; if not, look at the TaskManager's disk and GC.",
        "reason": "opened",
        "forecast": Forecast("The checkpoint expires", SINCE + 600_000, SINCE + 590_000, SINCE + 615_000),
        "opened_at": OPENED_AT,
        "config": "c0ffee12",
    }
    return Transition(**fields | changes)
