"""An incident that a person ends: when it ends, what opens it again, and what does not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.events.event import Event
from detectors.incident import Evidence, Finding, Transition
from detectors.incidents.ended_by_hand import EndedFindings
from detectors.settings.live import PublishedResolution, read_resolution
from detectors.values.decoding import UndecodableError
from tests.unit.detectors.changes import Change, Played, encode_resolution, play, serialized
from tests.unit.detectors.incidents.test_silences import JOB, completed, expired
from tests.unit.detectors.streams import START, log
from tests.unit.sinks.samples import make_transition

MINUTE = 60_000
WHY = "resolved by ann@bastion: the cluster was taken down"


def by_hand(last: Transition, **changes: Any) -> PublishedResolution:
    fields: dict[str, Any] = {"at": START, "by": "ann@bastion", "comment": "the cluster was taken down"}
    return PublishedResolution(last=last, **fields | changes)


class Ended(Played):
    """An incident is opened at 1 s and ended at 20 s, unless it is left open."""

    def __init__(self, end: bool = True) -> None:
        super().__init__()
        (self.opened,) = self.take(expired(1_000), until=20_000)
        if end:
            (self.end,) = self.ended()

    def ended(self, until: int = 30_000) -> list[Transition]:
        self.change(by_hand(self.opened))
        return self.take(until=until)


def words(transitions: list[Transition]) -> list[tuple[str, int, str]]:
    return [(t.transition, t.seq, t.reason) for t in transitions]


def test_it_resolves_at_once_with_name_and_reason_and_its_findings_end() -> None:
    end = Ended().end
    assert words([end]) == [("resolved", 2, WHY)]
    assert (end.at, end.ended_at) == (START + 20_000, START + 20_000)
    assert [(f.closed_at, f.closed_because) for f in end.findings] == [(START + 20_000, WHY)]
    assert end.forecast is None


def test_a_report_without_later_evidence_does_not_open_it_again() -> None:
    """The detector sees the expiry as a new one; its record is before the last one that was known."""
    same = log("checkpoint_expired", 60_000, 500, checkpoint="9", **JOB)
    assert Ended().take(same, until=2 * MINUTE) == []


def test_its_recovery_is_not_reported() -> None:
    assert Ended().take(completed(60_000), until=10 * MINUTE) == []


def test_new_evidence_opens_it_again_under_its_id() -> None:
    played = Ended()
    (again,) = played.take(expired(60_000, number=9), until=2 * MINUTE)
    assert (again.incident, again.seq, again.transition) == (played.opened.incident, 3, "updated")
    assert "recurred" in again.reason


def test_new_evidence_after_it_was_forgotten_opens_an_incident_of_its_own() -> None:
    played = Ended()
    played.take(until=30 * MINUTE)
    (other,) = played.take(expired(31 * MINUTE, number=9), until=32 * MINUTE)
    assert (other.transition, other.seq) == ("opened", 1)
    assert other.incident != played.opened.incident


def test_a_finding_that_was_closed_and_comes_back_counts() -> None:
    played = Ended()
    played.take(completed(60_000), until=30 * MINUTE)
    assert [t.transition for t in played.take(expired(31 * MINUTE, number=9), until=32 * MINUTE)] == ["opened"]


def test_a_second_request_changes_nothing() -> None:
    played = Ended()
    assert played.ended(until=40_000) == []


def test_two_requests_at_once_are_one_end() -> None:
    played = Ended(end=False)
    played.change(by_hand(played.opened), by_hand(played.opened))
    assert words(played.take(until=30_000)) == [("resolved", 2, WHY)]


def test_one_that_waits_for_its_recovery_ends_at_once() -> None:
    played = Ended(end=False)
    played.take(completed(25_000), until=26_000)
    assert words(played.ended()) == [("resolved", 2, WHY)]
    assert played.take(until=10 * MINUTE) == []


def test_a_stale_one_ends() -> None:
    played = Ended(end=False)
    (stale,) = played.take(until=20 * MINUTE)
    assert stale.transition == "stale"
    assert words(played.ended(until=21 * MINUTE)) == [("resolved", 3, WHY)]


def test_one_whose_cluster_was_forgotten_ends_from_its_last_transition_and_leaves_no_state() -> None:
    stale = make_transition(incident="old", seq=7, transition="stale", cluster="gone", at=START)
    played = Played()
    played.change(by_hand(stale), by_hand(stale))
    (end,) = played.take(until=5_000)
    assert (end.incident, end.seq, end.transition, end.reason) == ("old", 8, "resolved", WHY)
    assert all(f.closed_at is not None for f in end.findings)
    assert played.store.get("gone") is None


def test_the_rest_of_the_cluster_is_as_it_was() -> None:
    other = {"job": "b" * 32}
    played = Ended(end=False)
    (second,) = played.take(expired(22_000, **other), until=23_000)
    played.ended()
    (resolved,) = played.take(completed(40_000, **other), until=5 * MINUTE)
    assert (resolved.incident, resolved.transition) == (second.incident, "resolved")
    assert resolved.reason.startswith("checkpoint 2 completed")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=4))
def test_however_the_stream_is_cut_the_transitions_are_the_same(cuts: list[int]) -> None:
    (opened,) = play([expired(1_000)])
    items: list[Event | Change] = [expired(1_000), completed(2_000, number=1), by_hand(opened)]
    items += [completed(30_000), expired(40_000, number=9), completed(50_000, number=10)]
    assert serialized(play(items, cuts, until=200_000)) == serialized(play(items, until=200_000))


def finding(*offsets: int, **changes: Any) -> Finding:
    (one,) = make_transition().findings[:1]
    evidence = [Evidence("flink.logs", 0, offset, 0, "") for offset in offsets]
    return msgspec.structs.replace(one, evidence=evidence, since=5, at=50, **changes)


class TestRenewed:
    @pytest.fixture
    def known(self) -> EndedFindings:
        made = EndedFindings()
        made.end([finding(3, 7)])
        return made

    @pytest.mark.parametrize("offsets", [(), (7,), (3,), (5, 6)], ids=str)
    def test_evidence_that_is_not_newer_does_not_count(self, known: EndedFindings, offsets: tuple[int, ...]) -> None:
        assert known.renewed(finding(*offsets)) is None

    def test_newer_evidence_counts_once_and_begins_then(self, known: EndedFindings) -> None:
        renewed = known.renewed(finding(3, 8))
        assert renewed is not None
        assert renewed.since == 50
        assert known.renewed(finding(3)) == finding(3)

    def test_another_subject_counts(self, known: EndedFindings) -> None:
        other = finding(3, subject="another")
        assert known.renewed(other) == other

    def test_after_its_end_it_counts_again(self, known: EndedFindings) -> None:
        assert known.renewed(finding(3, closed_at=60)) == finding(3, closed_at=60)
        assert known.renewed(finding(3)) == finding(3)

    def test_they_are_bounded(self) -> None:
        known = EndedFindings()
        known.end([], [("kind", str(number)) for number in range(1_000)])
        assert len(known.known) == 500


def test_a_record_is_read_as_it_was_written_and_long_texts_are_cut() -> None:
    one = by_hand(make_transition())
    assert read_resolution(encode_resolution(one)) == one
    long = read_resolution(encode_resolution(by_hand(make_transition(), by="x" * 10_000, comment="y" * 10_000)))
    assert (len(long.by), len(long.comment)) == (200, 500)


@pytest.mark.parametrize("value", [b"", b"{", b"{}", b'{"last": {}, "at": 1, "by": "a", "comment": "b"}'])
def test_a_record_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(UndecodableError):
        read_resolution(value)
