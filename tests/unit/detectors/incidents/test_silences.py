"""Silences: a silenced incident is tracked as before, and each of its transitions has the silence."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from detectors.engine.bucket import BucketIndex, encode_index
from detectors.events.event import Event
from detectors.incident import Transition
from detectors.incidents.silences import MAX_SILENCES, Silence, in_force, next_edge
from detectors.settings.live import LiveSettings, PublishedSilence, encode_published, publish_silence, read_silence
from tests.unit.detectors.changes import Change, Played, live, play, silence
from tests.unit.detectors.streams import START, log

JOB = {"job": "a" * 32}
MINUTE = 60_000
OVER = "the silence ended and the incident is still open"


def named(at: int, name: str = "orders", **job: str) -> Event:
    return log("job_initializing", at, at, name=name, **(job or JOB))


def expired(at: int, number: int = 1, **job: str) -> Event:
    return log("checkpoint_expired", at, at, checkpoint=str(number), **(job or JOB))


def completed(at: int, number: int = 2, **job: str) -> Event:
    return log("checkpoint_completed", at, at, checkpoint=str(number), duration="1", bytes="1", **(job or JOB))


def has_data(until: int) -> list[Event]:
    """Something of the cluster every ten minutes, so that nothing is stale."""
    return [log("process_version", at, at, "rm", version="1.20.5", what="x") for at in range(0, until, 600_000)]


def words(transitions: list[Transition]) -> list[tuple[str, int, str, str]]:
    return [(t.transition, t.at - START, t.silence.id if t.silence else "", t.reason) for t in transitions]


def test_what_opens_under_a_silence_is_followed_and_marked_as_silenced() -> None:
    made = silence(30 * MINUTE, id="s", cluster="c", job="ord*", kinds=["checkpoint_*"])
    transitions = play([made, named(0), expired(1_000), completed(20_000)], until=200_000)
    assert words(transitions) == [
        ("opened", 1_100, "s", ""),
        ("resolved", 81_000, "s", "checkpoint 2 completed in 1 ms"),
    ]
    assert transitions[0].silence is not None
    assert (transitions[0].silence.until - START, transitions[0].silence.author, transitions[0].silence.comment) == (
        30 * MINUTE,
        "ann",
        "planned",
    )


@pytest.mark.parametrize(
    "other",
    [{"cluster": "prod-*"}, {"namespace": "payments"}, {"job": "refunds"}, {"kinds": ["restart_loop"]}],
    ids=lambda d: next(iter(d)),
)
def test_what_it_is_not_about_is_reported(other: dict[str, Any]) -> None:
    transitions = play([silence(30 * MINUTE, **other), named(0), expired(1_000)])
    assert [(t.transition, t.silence) for t in transitions] == [("opened", None)]


def test_one_that_begins_and_ends_while_the_incident_is_open_is_reported_both_times() -> None:
    transitions = play([silence(50_000, begins=20_000, id="s"), expired(1_000)], until=100_000)
    assert words(transitions) == [
        ("opened", 1_100, "", ""),
        ("updated", 20_000, "s", "silenced by ann: planned"),
        ("updated", 50_000, "", OVER),
    ]
    assert [t.silenced_before.id if t.silenced_before else "" for t in transitions] == ["", "", "s"]


def test_one_made_on_the_command_line_counts_at_once_and_ends_when_it_is_expired() -> None:
    played = Played(live())
    transitions = played.take(expired(1_000), until=10_000)
    played.change(silence(30 * MINUTE, id="s"))
    transitions += played.take(until=20_000)
    played.change(silence(15_000, id="s"))
    transitions += played.take(until=30_000)
    assert words(transitions)[1:] == [
        ("updated", 10_000, "s", "silenced by ann: planned"),
        ("updated", 20_000, "", OVER),
    ]


def test_one_that_is_prolonged_or_explained_better_is_reported_with_its_new_end() -> None:
    played = Played(live())
    played.change(silence(30_000, id="s"))
    played.take(expired(1_000), until=10_000)
    played.change(silence(60_000, id="s", comment="takes longer"))
    (transitions,) = played.take(until=20_000)
    assert transitions.silence is not None
    assert (transitions.silence.until - START, transitions.reason) == (60_000, "silenced by ann: takes longer")
    assert words(played.take(until=100_000)) == [("updated", 60_000, "", OVER)]


def test_one_of_the_command_line_takes_the_place_of_one_of_the_file_with_its_id() -> None:
    """So that it can be expired, regardless of who made it."""
    until = "2023-11-15T00:00:00Z"
    played = Played(live(silences=[{"id": "s", "until": until, "author": "file", "comment": "x"}]))
    played.take(expired(1_000), until=10_000)
    played.change(silence(10_000, id="s"))
    assert words(played.take(until=20_000)) == [("updated", 10_000, "", OVER)]


def test_of_several_the_one_that_lasts_longest_counts_and_only_the_last_end_is_reported() -> None:
    long, short = silence(90_000, begins=5_000, id="long"), silence(40_000, id="short")
    transitions = play([long, short, expired(1_000)], until=120_000)
    assert [(t.transition, t.at - START, t.silence.id if t.silence else "") for t in transitions] == [
        ("opened", 1_100, "short"),
        ("updated", 5_000, "long"),
        ("updated", 90_000, ""),
    ]


def test_one_that_ends_while_a_recovery_is_waited_for_lets_that_be_reported_instead() -> None:
    """Not `it is still open` a moment before `resolved`."""
    transitions = play([silence(40_000, id="s"), expired(1_000), completed(20_000)], until=200_000)
    assert words(transitions)[1:] == [("resolved", 81_000, "", "checkpoint 2 completed in 1 ms")]


def test_one_that_ends_without_data_does_not_claim_that_it_is_open() -> None:
    transitions = play([silence(30 * MINUTE, id="s"), expired(1_000)], until=40 * MINUTE)
    assert [(t.transition, t.silence is not None) for t in transitions] == [
        ("opened", True),
        ("stale", True),
        ("stale", False),
    ]
    assert transitions[-1].reason == "the silence ended; without data it is unknown whether the incident is still open"


def test_one_that_is_over_for_long_is_forgotten_and_the_bound_refuses_what_is_too_much() -> None:
    played = Played(live())
    played.take(expired(1_000), until=10_000)
    many = [silence(60_000 + n, id=f"s{n}") for n in range(10_000)]
    assert played.change(*many) == 10_000 - MAX_SILENCES
    assert len(played.index.silences) == MAX_SILENCES
    assert len(encode_index(played.index)) < 200_000
    # What is known can be changed all the same; there is room again when something has ended.
    assert played.change(silence(50_000, id="s3"), silence(50_000, id="new")) == 1
    played.take(*has_data(600_000), until=59_000)
    assert played.change(silence(120_000, id="new")) == 0
    assert "s3" not in played.index.silences
    played.take(*has_data(3 * 86_400_000), until=3 * 86_400_000)
    played.change(silence(4 * 86_400_000, id="last"))
    assert [*played.index.silences] == ["last"]


@pytest.mark.parametrize("count", [MAX_SILENCES, MAX_SILENCES + 1])
def test_the_configuration_has_the_same_bound(count: int) -> None:
    written = [{"until": "2026-12-01T00:00:00Z", "author": "a", "comment": f"{n}"} for n in range(count)]
    if count <= MAX_SILENCES:
        assert len(LiveSettings.model_validate({"silences": written}).silences) == count
        return
    with pytest.raises(ValidationError, match="at most 500"):
        LiveSettings.model_validate({"silences": written})


def test_two_of_one_id_are_refused() -> None:
    one = {"id": "s", "until": "2026-12-01T00:00:00Z", "author": "a", "comment": "b"}
    with pytest.raises(ValidationError, match="silence s occurs twice"):
        LiveSettings.model_validate({"silences": [one, {**one, "job": "x"}]})


def test_the_id_depends_on_the_meaning_and_not_on_how_it_is_written() -> None:
    one = Silence.model_validate({"until": "2026-12-01T06:00:00+01:00", "author": "a", "comment": "b", "kinds": ["*"]})
    same = Silence.model_validate({"comment": "b", "author": "a", "until": "2026-12-01T05:00:00Z"})
    other = Silence.model_validate({"comment": "c", "author": "a", "until": "2026-12-01T05:00:00Z"})
    assert one.id == same.id != other.id


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"until": "2026-12-01T00:00:00"}, "timezone"),
        ({"until": "tomorrow"}, "datetime"),
        ({"begins": "2026-12-02T00:00:00Z"}, "ends before it begins"),
        ({"author": ""}, "at least 1"),
        ({"comment": ""}, "at least 1"),
        ({"kinds": []}, "at least 1"),
        ({"kind": "restart_loop"}, "Extra"),
        ({"job": "~("}, "is not valid"),
    ],
)
def test_what_is_wrong_is_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Silence.model_validate({"until": "2026-12-01T00:00:00Z", "author": "a", "comment": "b", **wrong})


def test_a_record_is_read_from_anyone_and_kept_in_full() -> None:
    """Without an id, with a time as a number: as somebody with a console producer would."""
    raw = encode_published(PublishedSilence({"until": 1_800_000_000, "author": "a", "comment": "b"}, 7, "me"))
    read = read_silence(raw)
    assert (read.at, read.by, read.ends()) == (7, "me", 1_800_000_000_000)
    assert read.silence["id"]
    assert read == read_silence(encode_published(read)) == publish_silence(read.read(), 7, "me")
    index = BucketIndex()
    assert index.configure(None, [read]) == 0
    assert [*index.silences] == [read.silence["id"]]


times = st.integers(1, 600).map(lambda s: s * 1_000)
made = st.builds(
    lambda a, b, n: silence(max(a, b) + 1_000, begins=min(a, b), id=n), times, times, st.sampled_from("xyz")
)


@settings(max_examples=100, deadline=None)
@given(st.lists(made, max_size=5), st.lists(times, max_size=5))
def test_at_any_time_what_was_reported_last_is_what_is_in_force(
    silences: list[PublishedSilence], cuts: list[int]
) -> None:
    """Compared with the plain question, asked each second."""
    read = {s.silence["id"]: s.read() for s in silences}.values()
    items: list[Event | Change] = [*silences, expired(1_000)]
    played, transitions = Played(), list[Transition]()
    played.change(*silences)
    transitions += played.take(*(i for i in items if not isinstance(i, PublishedSilence)))
    for until in [*sorted(c for c in cuts if c > 1_100), 700_000]:
        transitions += played.take(until=until)
    timeline = {t.at: t.silence for t in transitions}
    for now in range(START + 1_100, START + 700_000, 1_000):
        last = timeline[max(at for at in timeline if at <= now)]
        # Edges lie on whole seconds, as deadlines do.
        assert last == in_force(
            read, "c", "", "checkpoint_overdue", now // 1_000 * 1_000 if now > START + 1_100 else now
        )
    edge = next_edge(read, "c", "", "checkpoint_overdue", START + 601_000)
    assert edge is None
