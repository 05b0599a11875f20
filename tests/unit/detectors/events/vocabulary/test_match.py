"""What Flink's lines mean: real lines of Flink 1.4 to 2.3, and lines that only look like them."""

import json
from pathlib import Path
from typing import Any

import pytest

from detectors.events.layouts import text_layout
from detectors.events.vocabulary import match

LINES: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("lines.jsonl").read_text(encoding="utf-8").splitlines()
]
JOB = "e04f0bd47405a7a169914793d27ced1f"

# Wordings of which no real line is at hand, as the release jars print them.
PRINTED = [
    ("checkpoint_declined", f"Decline checkpoint 7 by task {JOB} of job {JOB} at tm-1:1-a @ tm-1 (dataPort=1).", "7"),
    (
        "checkpoint_acked_late",
        f"Received late message for now expired checkpoint attempt 7 from task {JOB} of job {JOB} at t @ h.",
        "7",
    ),
    ("checkpoint_failed", f"Discarding checkpoint 7 of job {JOB}.", "7"),
    ("checkpoint_expired", "Checkpoint 7 expired before completing.", "7"),
]


@pytest.mark.parametrize("real", LINES, ids=lambda r: f"{r['flink']}-{r['event_type']}")
def test_a_real_line_has_its_meaning_and_fields_in_every_layout(real: dict[str, Any]) -> None:
    line = real["line"]
    head = text_layout.split(line)
    message = line if head is None else head[1]
    assert match.match(message) == (real["event_type"], real["fields"])
    if head is None:
        return
    logback = f"2026-11-21 00:38:32,889 [flink-akka.actor.default-dispatcher-3] INFO  o.a.f.r.X  - {message}"
    eaten = f"2026-11-21 00:38:32,889 INFO org.apache.flink.X - {message}"
    colour = f"\x1b[32m2026-11-21 00:38:32,889 INFO  org.apache.flink.X [] - {message}\x1b[0m"
    for other in (logback, eaten, colour, line + "\r"):
        split = text_layout.split(other)
        assert split is not None
        assert match.match(split[1].rstrip("\r")) == (real["event_type"], real["fields"])


@pytest.mark.parametrize(("event_type", "message", "checkpoint"), PRINTED)
def test_a_pattern_of_the_release_jars_is_read(event_type: str, message: str, checkpoint: str) -> None:
    found = match.match(message)
    assert found is not None
    assert (found[0], found[1]["checkpoint"]) == (event_type, checkpoint)


def test_every_real_line_contains_a_prefilter_literal_also_inside_json() -> None:
    for real in LINES:
        escaped = json.dumps({"message": real["line"]})
        assert any(literal in escaped for literal in match.PREFILTER), real["line"]


@pytest.mark.parametrize(
    ("pattern", "anchor"),
    [
        (r"Restarting job\.", "Restarting job."),
        (r"Initializing job '?(?P<name>.+?)'? ", "Initializing job "),
        (r"Checkpoints? (?P<checkpoint>\d+)", "Checkpoint"),
        (r"Closing, because: a-b \[x\]", "Closing, because: a-b "),
    ],
)
def test_the_anchor_is_the_text_with_which_the_pattern_begins(pattern: str, anchor: str) -> None:
    assert match.LogPattern("x", pattern).anchor == anchor
    assert match.LogPattern("x", pattern, anchor="rare").anchor == "rare"


def test_every_pattern_has_an_anchor() -> None:
    assert all(len(log_pattern.anchor) > 2 for log_pattern in match.PATTERNS)


@pytest.mark.parametrize("log_pattern", match.PATTERNS, ids=lambda w: w.anchor)
def test_an_anchor_looks_the_same_inside_json(log_pattern: match.LogPattern) -> None:
    assert json.dumps(log_pattern.anchor) == f'"{log_pattern.anchor}"'


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Checkpoint 6 completed before expiring.",
        f"Checkpoint storage of job {JOB} expired before completing.",
        "I read that Checkpoint 6 expired before completing.",
        "Triggering checkpoint because of a savepoint",
        f"Disposing savepoint for job {JOB}.",
        f"Completed checkpoint 6 for job {JOB} (bytes unknown)",
        "Starting the SlotManager.",
        "Starting RPC endpoint for org.apache.flink.runtime.taskexecutor.TaskExecutor",
        f"Application SingleJobApplication(orders) ({JOB}) switched from state CREATED to RUNNING.",
        "Checkpoint " + "9" * 5_000 + " expired before completing.",
        "Deploying tasks to the cluster",
        f"Triggering checkpoint １２ @ 1763712384000 for job {JOB}.",
    ],
)
def test_a_near_miss_means_nothing(message: str) -> None:
    assert match.match(message) is None


@pytest.mark.parametrize(
    "line", ["\tat java.lang.Thread.run(Thread.java:748)", "2026-11-21 nonsense", "", "{", "INFO x - y"]
)
def test_a_line_without_a_head_has_no_time(line: str) -> None:
    assert text_layout.split(line) is None


def test_a_time_that_does_not_exist_is_no_time_but_the_message_is_read() -> None:
    assert text_layout.split("2026-02-31 25:61:61,000 INFO  x - hello") == (-1, "hello", False)
