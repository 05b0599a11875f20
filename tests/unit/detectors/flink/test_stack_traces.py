"""Stacks are joined per source, however their lines arrive."""

import random

import msgspec

from detectors.events.event import LogEvent, Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.flink.facts import FAILURE
from detectors.flink.stack_traces import StackTraces

JOB = "e04f0bd47405a7a169914793d27ced1f"
AT = "2026-11-21 02:14:39,000"
HEAD = f"{AT} INFO  o.a.f.r.e.ExecutionGraph [] - Job clicks ({JOB}) switched from state RUNNING to RESTARTING."
STACK = (
    HEAD,
    "org.apache.flink.runtime.JobException: Recovery is suppressed",
    "\tat org.apache.flink.runtime.Handler.handle(Handler.java:139)",
    "\tat com.example.Outer.run(Outer.java:7)",
    "Caused by: java.lang.RuntimeException: bad record",
    "\tat java.base/java.lang.Thread.run(Thread.java:840)",
    "\tat com.example.Parse.map(Parse.java:28)",
    "\t... 12 more",
)
READER = Reader(Identity(), frozenset())


def read(lines: list[tuple[str, str]]) -> list[LogEvent]:
    """Events of (source, text) records, a millisecond apart."""
    events: list[LogEvent] = []
    for number, (source, text) in enumerate(lines):
        found = READER.read(Record("logs", 0, number, 1_000 + number, source.encode(), text.encode()))
        assert isinstance(found, list)
        events += [e for e in found if isinstance(e, LogEvent)]
    return events


def failures(lines: list[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Source → fields of its last failure."""
    throwables = StackTraces()
    joined = [f for e in read(lines) if (f := throwables.join(e)) is not None]
    assert all(f.event_type == FAILURE for f in joined)
    return {f.source: f.fields for f in joined}


def root(fields: dict[str, str]) -> tuple[str, str, str, str]:
    """The failure without its address."""
    return fields["of"], fields["class"], fields["message"], fields["frame"]


EXPECTED = ("job_state", "java.lang.RuntimeException", "bad record", "com.example.Parse.map(Parse.java:28)")


def test_one_record_a_line() -> None:
    found = failures([("jm", line) for line in STACK])
    assert root(found["jm"]) == EXPECTED
    assert found["jm"]["first"].startswith("org.apache.flink.runtime.JobException")
    assert found["jm"]["job"] == JOB


def test_one_record_for_all() -> None:
    assert root(failures([("jm", "\n".join(STACK))])["jm"]) == EXPECTED


def test_sources_that_interleave() -> None:
    chance = random.Random(3)
    waiting = {source: list(STACK) for source in ("a", "b", "c")}
    lines = []
    while any(waiting.values()):
        source = chance.choice([s for s, left in waiting.items() if left])
        lines.append((source, waiting[source].pop(0)))
    assert {s: root(f) for s, f in failures(lines).items()} == dict.fromkeys("abc", EXPECTED)


def test_a_second_throwable_is_not_the_first_ones_cause() -> None:
    found = failures([("jm", line) for line in (*STACK, "java.io.IOException: something else")])
    assert root(found["jm"]) == ("", "java.io.IOException", "something else", "")


def test_the_stack_of_a_line_without_a_meaning_is_dropped() -> None:
    other = "2026-11-21 02:14:40,000 WARN  com.example.Client [] - request failed\njava.io.IOException: broken pipe"
    found = failures([("jm", HEAD), ("jm", other)])
    assert root(found["jm"]) == ("", "java.io.IOException", "broken pipe", "")


def test_the_cause_may_stand_in_the_failing_line_itself() -> None:
    line = (
        f"{AT} WARN  o.a.f.r.taskmanager.Task [] - Sink: out (1/2)#0 ({JOB})"
        " switched from RUNNING to FAILED with failure cause: java.lang.Exception: Disconnect from JobManager"
    )
    found = failures([("tm", line)])
    assert root(found["tm"]) == ("task_state", "java.lang.Exception", "Disconnect from JobManager", "")


def test_a_stack_after_a_task_that_keeps_running_is_dropped() -> None:
    calm = f"{AT} INFO  o.a.f.r.e.ExecutionGraph [] - Sink: out (1/2)#0 ({JOB}) switched from DEPLOYING to RUNNING."
    found = failures([("jm", HEAD), ("jm", calm), ("jm", "java.io.IOException: broken pipe")])
    assert root(found["jm"]) == ("", "java.io.IOException", "broken pipe", "")


def test_states_survive_bytes() -> None:
    throwables = StackTraces()
    for event in read([("jm", line) for line in STACK]):
        throwables = msgspec.msgpack.decode(msgspec.msgpack.encode(throwables), type=StackTraces)
        joined = throwables.join(event)
    assert joined is not None
    assert root(joined.fields) == EXPECTED
