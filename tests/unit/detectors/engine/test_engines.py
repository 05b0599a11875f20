"""A configuration that changes while the stream runs."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors import DETECTORS
from detectors.engine.bucket import INDEX_VERSION, BucketIndex, decode_index, encode_index, step
from detectors.engine.engine import Engine
from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.events.event import Event
from detectors.incident import Finding, Transition
from detectors.settings.live import LiveSettings, PublishedConfiguration
from streaming.recordings.replay import MemoryStore
from tests.recorded import events
from tests.unit.detectors.changes import Change, Played, findings, live, play, silence
from tests.unit.detectors.streams import START, alone, encoded, in_order, log, made_up, run

JOB = {"job": "a" * 32}
CREEP = "checkpoint_duration_creep"
DAY = 86_400_000
laws = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def triggered(at: int, number: int = 1, **more: Any) -> Event:
    return log("checkpoint_triggered", at, number, checkpoint=str(number), epoch=str(START), **{**JOB, **more})


def words(output: list[Transition]) -> list[tuple[str, str, int, str]]:
    return [(t.transition, t.cause, t.at - START, t.reason) for t in output]


def test_a_creep_keeps_its_history_over_a_change_and_is_reported_in_the_step_that_brings_it() -> None:
    stream = in_order(events("checkpoint-creep-linear"))
    opened = next(t.at for t in run(stream) if t.cause == CREEP)
    known = [e for e in stream if e.timestamp <= opened]
    played = Played(live({CREEP: {"growth": 1000.0}}))
    for start in range(0, len(known), 50):
        assert findings(played.take(*known[start : start + 50]), CREEP) == []
    played.change(live())
    output = played.take(until=known[-1].timestamp - START + 1_000)
    assert [(t.transition, t.cause, t.config) for t in output] == [("opened", CREEP, live().hash)]
    assert output[0].series is not None
    assert len(output[0].series.points) == 20


def test_a_creep_of_a_job_that_has_gone_quiet_is_not_dug_up_by_a_change() -> None:
    stream = in_order(events("checkpoint-creep-linear"))
    played = Played(live({CREEP: {"growth": 1000.0}}))
    played.take(*stream)
    played.take(until=stream[-1].timestamp - START + DAY)
    played.change(live())
    assert findings(played.take(until=stream[-1].timestamp - START + DAY + 1_000), CREEP) == []


def test_deadlines_are_asked_again_when_a_limit_is_lowered_or_raised() -> None:
    played = Played(live())
    assert played.take(triggered(0), until=100_000) == []
    played.change(live({"checkpoint_overdue": {"learning_limit": "1m"}}))
    # Overdue: reported on the next second.
    assert words(played.take(until=105_000)) == [("opened", "checkpoint_overdue", 101_000, "")]
    played = Played(live())
    assert played.take(triggered(0), until=100_000) == []
    played.change(live({"checkpoint_overdue": {"learning_limit": "10m"}}))
    assert words(played.take(until=601_000)) == [("opened", "checkpoint_overdue", 601_000, "")]


def test_a_change_takes_force_at_the_clock_of_the_stream_however_long_a_cluster_was_quiet() -> None:
    """Its own clock is that of its last step, and when that was depends on the cuts."""
    for clocks in ([50_000], [20_000, 30_500, 50_000]):
        played = Played(live())
        output = played.take(log("checkpoint_expired", 0, 1, checkpoint="1", **JOB), until=10_000)
        for clock in clocks:
            output += played.take(until=clock)
        played.change(live({"checkpoint_overdue": {"enabled": False}}))
        output += played.take(until=200_000)
        assert words(output) == [
            ("opened", "checkpoint_overdue", 100, ""),
            ("resolved", "checkpoint_overdue", 110_000, "detector checkpoint_overdue was disabled"),
        ]


def test_switched_off_it_closes_what_is_open_with_the_reason_and_says_nothing_new() -> None:
    played = Played(live())
    played.take(log("checkpoint_expired", 0, 1, checkpoint="1", **JOB), until=10_000)
    played.change(live(overrides=[{"cluster": "c", "detectors": {"checkpoint_overdue": {"enabled": False}}}]))
    output = played.take(
        log("checkpoint_expired", 11_000, 2, checkpoint="2", **JOB), triggered(12_000, 3), until=900_000
    )
    assert words(output) == [("resolved", "checkpoint_overdue", 70_000, "detector checkpoint_overdue was disabled")]


def test_switched_on_again_it_begins_again_and_says_nothing_of_what_it_missed() -> None:
    """It has not seen that the checkpoint completed."""
    played = Played(live())
    played.take(triggered(0), until=1_000)
    played.change(live({"checkpoint_overdue": {"enabled": False}}))
    done = log("checkpoint_completed", 2_000, 2, checkpoint="1", duration="2000", bytes="1", **JOB)
    played.take(done, until=500_000)
    played.change(live())
    assert played.take(until=2_000_000) == []


def test_readings_of_a_detector_that_is_switched_off_end() -> None:
    stream = in_order(events("checkpoint-creep-linear"))
    half = len(stream) // 2
    played = Played(live())
    played.take(*stream[:half])
    own = {key for key in played.read if key.startswith("checkpoint_overdue_limit_seconds")}
    assert own
    played.change(live({"checkpoint_overdue": {"enabled": False}}))
    played.gone.clear()
    played.take(stream[half])
    assert own <= set(played.gone)
    played.gone.clear()
    played.read.clear()
    played.take(*stream[half + 1 :])
    assert not own & {*played.read, *played.gone}


def test_findings_that_are_one_of_too_many_to_be_kept_are_closed_too() -> None:
    played = Played(live())
    lost = [log("tm_unreachable", n, n, tm=f"tm-{n}") for n in range(40)]
    (opened, *_) = played.take(*lost, until=30_000)
    assert opened.cause == "taskmanager_lost"
    played.change(live({"taskmanager_lost": {"enabled": False}}))
    assert [t.transition for t in played.take(until=100_000)] == ["resolved"]


def test_every_transition_names_the_configuration_under_which_it_was_decided() -> None:
    first, second = live(), live({"checkpoint_overdue": {"factor": 7.0}})
    played = Played(first)
    output = played.take(log("checkpoint_expired", 0, 1, checkpoint="1", **JOB), until=10_000)
    played.change(second)
    done = log("checkpoint_completed", 20_000, 2, checkpoint="2", duration="2000", bytes="1", **JOB)
    output += played.take(done, until=200_000)
    assert [t.config for t in output] == [first.hash, second.hash]


def test_the_same_settings_published_again_change_nothing() -> None:
    played = Played(live())
    played.take(triggered(0), until=1_000)
    before = dict(played.index.deadlines)
    played.change(msgspec.structs.replace(live(), at=99, by="somebody else"))
    assert played.index.deadlines == before
    assert played.index.published is not None
    assert played.index.published.by == "somebody else"


def test_a_change_steps_every_cluster_of_the_bucket_in_the_batch_that_brings_it() -> None:
    played = Played(live())
    for name in ("c", "d"):
        played.take(msgspec.structs.replace(triggered(0), cluster=name), until=1_000)
    played.change(live({"checkpoint_overdue": {"learning_limit": "1s"}}))
    output = played.take(until=10_000)
    assert sorted(t.cluster for t in output) == ["c", "d"]


def test_state_of_before_the_change_is_read_and_asked_again() -> None:
    """Its states name no mark; what is switched off now is closed."""
    index, store = BucketIndex(published=alone("checkpoint_overdue")), MemoryStore()
    step(index, store, [log("checkpoint_expired", 0, 1, checkpoint="1", **JOB)], START + 10_000)
    state = decode_state(store.get("c") or b"")
    fields = [f for f in ClusterState.__struct_fields__ if f != "mark"]
    older = msgspec.defstruct("Older", [(f, Any) for f in fields])(**{f: getattr(state, f) for f in fields})
    store.put("c", encode_state(older))  # type: ignore[arg-type]
    assert decode_state(store.get("c") or b"").mark == ""
    index.configure(alone("restart_loop"), [])
    output = step(index, store, [], START + 100_000)
    assert words(output.transitions)[0][3] == "detector checkpoint_overdue was disabled"


def test_an_index_of_before_the_change_is_read() -> None:
    class Old(msgspec.Struct):
        version: int = INDEX_VERSION
        clock: int = 7
        deadlines: dict[str, int] = {}
        published: dict[str, Any] | None = None
        records: int = 3
        rejected: dict[str, int] = {}
        counted_at: int = 0

    published = {"hash": "12345678", "at": 1, "by": "x", "detectors": {"restart_loop": {"count": 4}}}
    index = decode_index(msgspec.msgpack.encode(Old(published=published)))
    assert (index.clock, index.records, index.silences, index.config_hash()) == (7, 3, {}, "12345678")
    assert index.published is not None
    assert index.published.live().detectors.restart_loop.count == 4
    assert decode_index(encode_index(index)) == index


CHANGES: list[Change] = [
    live(),
    live({d.kind: {"enabled": d.kind in ("restart_loop", "checkpoint_overdue", "backpressure")} for d in DETECTORS}),
    live(
        {"checkpoint_overdue": {"learning_limit": "5s", "min_age": "1s"}, "incidents": {"resolve_after": "5s"}},
        overrides=[{"job": "orders", "detectors": {"restart_loop": {"count": 2}, "job_failed": {"enabled": False}}}],
    ),
    live(silences=[{"job": "pay*", "until": "2023-11-14T22:30:00Z", "author": "a", "comment": "b"}]),
    silence(200_000),
    silence(600_000, begins=100_000, kinds=["restart_loop", "checkpoint_*"]),
    silence(300_000, cluster="other"),
]


@laws
@given(
    stream=made_up(),
    changes=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(CHANGES)), max_size=5),
    cuts=st.lists(st.integers(0, 100), max_size=10),
)
def test_the_same_is_reported_however_a_stream_with_changes_in_it_is_cut(
    stream: list[Event], changes: list[tuple[int, Change]], cuts: list[int]
) -> None:
    items: list[Event | Change] = [*stream]
    for place, change in changes:
        items.insert(place, change)
    end = stream[-1].timestamp - START + 2_000_000
    assert encoded(play(items, cuts, end)) == encoded(play(items, (), end))


@laws
@given(stream=made_up(), place=st.integers(0, 60))
def test_a_change_and_back_before_anything_comes_leaves_nothing_behind(stream: list[Event], place: int) -> None:
    """Thresholds and silences only: what was switched off has forgotten."""
    other = live({"checkpoint_overdue": {"factor": 9.0}, "restart_loop": {"count": 12, "period_tolerance": 1.0}})
    before = live()
    end = stream[-1].timestamp - START + 2_000_000
    items: list[Event | Change] = [before, *stream[:place], *stream[place:]]
    changed: list[Event | Change] = [before, *stream[:place], other, before, *stream[place:]]
    assert encoded(play(changed, (), end)) == encoded(play(items, (), end))


@pytest.mark.parametrize("detector", [d for d in DETECTORS if d.per_job], ids=lambda d: d.kind)
@laws
@given(data=st.data())
def test_the_subject_of_what_is_decided_for_a_job_is_its_id(detector: Any, data: st.DataObject) -> None:
    """By it the engine knows whether it is switched off for that job."""
    found: list[Finding] = []
    for transition in run(data.draw(made_up(detector.event_types)), published=alone(detector.kind)):
        found += findings([transition], detector.kind)
    assert all(f.subject == f.entity["job_id"] or not f.entity["job_id"] for f in found)


def test_a_detector_that_is_off_is_not_run_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with an override by job, unless that switches it on: off is the way out when a detector fails."""
    from detectors.kinds.checkpoints.checkpoint_overdue import CheckpointOverdue

    monkeypatch.setattr(CheckpointOverdue, "fact", lambda *_: 1 / 0)
    general = {"checkpoint_overdue": {"enabled": False}}
    override = {"job": "orders", "detectors": {"checkpoint_overdue": {"factor": 2.0}}}
    assert Played(live(general, overrides=[override])).take(triggered(0)) == []
    override["detectors"] = {"checkpoint_overdue": {"enabled": True}}
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        Played(live(general, overrides=[override])).take(triggered(0))


def test_a_job_for_which_a_detector_is_switched_on_is_the_only_one_it_speaks_of() -> None:
    override = {"job": "orders", "detectors": {"checkpoint_overdue": {"enabled": True}}}
    played = Played(live({"checkpoint_overdue": {"enabled": False}}, overrides=[override]))
    output = []
    for n, name in enumerate(("orders", "payments")):
        job = {"job": f"{n}" * 32}
        output += played.take(log("job_state", 1_000 * n, n, name=name, state="RUNNING", **job))
        output += played.take(log("checkpoint_expired", 1_000 * n + 500, n, checkpoint="1", **job))
    assert [t.job_name for t in output] == ["orders"]


def test_without_overrides_all_clusters_share_detectors_that_ask_nobody() -> None:
    """So that they cost nothing to those who have none."""
    engine = Engine(LiveSettings().detectors)
    one = engine.detectors(ClusterState().topology)
    assert one is engine.detectors(ClusterState().topology)
    assert all(d.config_of("any") is d.config for d in one.all)


def test_settings_of_another_version_that_a_bucket_still_has_stop_nothing() -> None:
    """A batch that is run again after an upgrade."""
    index = BucketIndex(published=PublishedConfiguration("0ld", 1, "me", {"taskmanager_lost": {"renamed_since": "3s"}}))
    output = step(decode_index(encode_index(index)), MemoryStore(), [triggered(0)], START + 1_000_000)
    assert [t.cause for t in output.transitions if t.transition == "opened"] == ["checkpoint_overdue"]
