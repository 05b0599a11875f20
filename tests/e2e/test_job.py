"""The job on a real broker: it says what replay says, survives hostile records, and ends in order."""

import json
from collections.abc import Callable

import pytest

from detectors.events.event import Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.incident import Transition
from detectors.settings.live import LiveSettings, publish
from streaming.recordings.replay import load
from tests.e2e.harness import Installation
from tests.recorded import recording, replay

pytestmark = pytest.mark.e2e

Make = Callable[..., Installation]


def recorded(scenario: str) -> list[Record]:
    return load([recording(scenario)], "flink.logs", "flink.metrics")


def replayed(records: list[Record], metrics_topic: str) -> list[Transition]:
    """What the records alone say: the clock stands still after the last one."""
    reader = Reader(Identity(), frozenset({metrics_topic}))
    return list(replay(records, reader, publish(LiveSettings(), at=0, by="test"), after_ms=0))


def essence(transitions: list[Transition]) -> list[tuple[object, ...]]:
    """What must be equal whatever the batches: everything but the clock, which may differ by a trigger."""
    return [
        (t.incident, t.seq, t.transition, t.cause, t.severity, t.summary, [e.offset for e in t.evidence])
        for t in sorted(transitions, key=lambda t: (t.incident, t.seq))
    ]


HOSTILE = {
    "empty": b"",
    "invalid_utf8": "日志".encode("gbk"),
    "too_large": b"x" * 5_000_000,
    "nul_byte": b"2026-11-21 02:10:52,332 INFO  a.b.C [] - \x00 zero",
    "wrong_shape": b'{"neither": "message nor log"}',
    "too_deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "not_json": b'{"message": "Completed checkpoint 1',
}


def test_the_job_says_what_replay_says_and_hostile_records_are_rejected_counted_and_kept(installation: Make) -> None:
    """The same records give the same transitions, numbers and evidence, under Spark and without it; each hostile one
    gets its reason, none is lost, and the records around them are read as if they were not there.
    """
    here = installation()
    here.create_inputs()
    records = recorded("late-barrier-acks")
    start = records[0].timestamp
    bad = [Record("flink.logs", 0, 0, start, None, value) for value in HOSTILE.values()]
    bad.append(Record("flink.logs", 0, 0, start, b"key", None))
    bad += [Record("flink.metrics", 0, 0, start, None, value) for value in (b'{"metrics": 5}', b"what is this?")]
    stored = here.send([*bad, *records])
    expected = replayed(stored, here.metrics)
    assert expected[-1].cause == "late_barrier_acks"
    here.job.start()
    here.wait_for(lambda: len(here.transitions()) >= len(expected) and len(here.rejected()) >= len(bad))
    assert here.job.terminate() == 0
    reasons = sorted(letter["reason"] for letter in here.rejected())
    assert reasons == sorted([*HOSTILE, "empty", "wrong_shape", "not_prometheus"])
    assert essence(here.transitions()) == essence(expected)
    counted = {k: v for k, v in here.readings().items() if k.startswith("records_rejected_total")}
    assert sum(counted.values()) == len(bad)


def test_without_input_the_heartbeat_alone_advances_the_clock(installation: Make) -> None:
    """A checkpoint is overdue, and then its incident stale, although no record of the cluster comes any more.

    Logs alone: where metrics fell silent as well, the checkpoint may have completed unheard.
    """
    here = installation()
    here.create_inputs()
    records = [r for r in recorded("late-barrier-acks") if r.topic == "flink.logs"]
    first_trigger = next(i for i, r in enumerate(records) if b"Triggering checkpoint 6 " in (r.value or b""))
    here.send(records[: first_trigger + 1])
    here.job.start()
    # A heartbeat moves the clock only where it comes without other records.
    here.wait_for(lambda: bool(here.readings()))
    now = records[first_trigger].timestamp
    here.heartbeat(now + 31_000)
    here.wait_for(lambda: [t.transition for t in here.transitions()] == ["opened"])
    assert here.transitions()[0].cause == "checkpoint_overdue"
    here.heartbeat(now + 1_000_000)
    here.wait_for(lambda: [t.transition for t in here.transitions()] == ["opened", "stale"])
    assert here.job.terminate() == 0


def test_a_missing_topic_is_named_in_one_line(installation: Make) -> None:
    """Without the shipper's topics the job does not start, and says which."""
    here = installation()
    here.job.start()
    assert here.job.wait(60) == 1
    assert f"Kafka has no topic {here.logs}, {here.metrics}" in here.job.log_tail(1)


@pytest.mark.slow
def test_other_buckets_than_the_checkpoint_has_are_refused(installation: Make) -> None:
    """State is kept by bucket: another number would look for it where it is not."""
    here = installation()
    here.create_inputs()
    here.job.start()
    here.wait_for((here.folder / "checkpoint" / "flinkwatch.json").exists)
    here.job.kill()
    other = installation(checkpoint=str(here.folder / "checkpoint"), buckets=3)
    other.create_inputs()
    other.job.start()
    assert other.job.wait(90) == 1
    assert "buckets is now 3, was 2 at the first start" in other.job.log_tail(1)


@pytest.mark.slow
def test_a_failed_query_ends_the_process_with_its_cause_in_one_line(installation: Make) -> None:
    """The injected fault: a state store that does not exist."""
    here = installation(spark={"spark.sql.streaming.stateStore.providerClass": "no.such.Provider"})
    here.create_inputs()
    here.send(recorded("late-barrier-acks")[:10])
    here.job.start()
    assert here.job.wait(240) == 1
    last = json.loads(here.job.log_tail(1))["event"]
    assert last.startswith("flinkwatch: ")
    assert "no.such.Provider" in last
