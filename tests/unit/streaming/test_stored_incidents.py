"""Transitions of the incidents topic, by incident."""

import msgspec

from streaming.stored_incidents import by_incident
from tests.unit.sinks.samples import make_transition

FIRST, SECOND = (msgspec.json.encode(make_transition(incident="a", seq=seq)) for seq in (1, 2))
OTHER = msgspec.json.encode(make_transition(incident="b", seq=1))


def numbers(*records: tuple[bytes, bytes | None], incident: str = "") -> dict[str, list[int]]:
    return {name: [t.seq for t in found] for name, found in by_incident(records, incident).items()}


def test_transitions_are_in_order_of_their_number_and_each_counts_once() -> None:
    assert numbers((b"a", SECOND), (b"b", OTHER), (b"a", FIRST), (b"a", SECOND)) == {"a": [1, 2], "b": [1]}


def test_one_incident_is_found_by_its_id() -> None:
    assert numbers((b"a", FIRST), (b"b", OTHER), incident="b") == {"b": [1]}


def test_a_tombstone_removes_what_came_before_it() -> None:
    assert numbers((b"a", FIRST), (b"a", None), (b"a", SECOND)) == {"a": [2]}


def test_a_record_that_cannot_be_read_hides_no_other() -> None:
    assert numbers((b"a", b"{"), (b"a", FIRST)) == {"a": [1]}
