"""The incident store: what it keeps, what it removes, and what becomes of it when the disk is full."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from sinks.web.site import lookup
from sinks.web.site.documents import IncidentSummary
from sinks.web.site.query import SiteQuery
from sinks.web.site.store import MOST_TRANSITIONS, IncidentStore
from tests.unit.sinks.samples import OPENED_AT, SINCE, make_transition
from tests.unit.sinks.web.site.filled import DAY_MS, NOW, FilledSite


def summary(filled: FilledSite, incident: str) -> IncidentSummary | None:
    with filled.store.reading() as db:
        return lookup.incident(db, incident)


def seqs(filled: FilledSite, incident: str) -> list[int]:
    with filled.store.reading() as db:
        return lookup.numbers(db, incident)


def test_an_incident_is_as_its_newest_transition_says_and_all_transitions_are_kept(filled: FilledSite) -> None:
    filled.add_incident("i", 3, severity="critical")
    found = summary(filled, "i")
    assert found is not None
    assert (found.seq, found.severity, found.state, found.since) == (3, "critical", "open", SINCE)
    with filled.store.reading() as db:
        kept = lookup.transitions(db, "i", [1, 2, 3])
    assert [one.seq for one in kept] == [3, 2, 1]
    assert kept[2] == make_transition(incident="i", severity="critical")


def test_a_transition_that_is_written_twice_is_kept_once(filled: FilledSite) -> None:
    filled.add_incident("i", 2)
    filled.add_incident("i", 2)
    assert seqs(filled, "i") == [1, 2]


def test_of_an_endless_incident_the_first_and_the_newest_transitions_are_kept(filled: FilledSite) -> None:
    filled.add_incident("i", MOST_TRANSITIONS + 20)
    kept = seqs(filled, "i")
    assert len(kept) == MOST_TRANSITIONS
    assert (kept[0], kept[-1]) == (1, MOST_TRANSITIONS + 20)


def test_an_incident_is_removed_two_weeks_after_its_end_and_an_open_one_never(filled: FilledSite) -> None:
    filled.add_incident("open", opened_at=NOW - 100 * DAY_MS)
    filled.resolve("old", NOW - 14 * DAY_MS - 1)
    filled.resolve("recent", NOW - 14 * DAY_MS)
    filled.notified("old", at=NOW - 14 * DAY_MS - 1)
    filled.store.prune()
    assert [summary(filled, name) is not None for name in ("open", "old", "recent")] == [True, False, True]
    assert seqs(filled, "old") == []
    with filled.store.reading() as db:
        assert lookup.notifications(db, "old") == []


def test_a_tombstone_removes_everything_of_an_incident(filled: FilledSite) -> None:
    filled.add_incident("i", 2)
    filled.notified("i")
    filled.store.remove("i")
    filled.store.commit()
    with filled.store.reading() as db:
        assert (lookup.incident(db, "i"), lookup.numbers(db, "i"), lookup.notifications(db, "i")) == (None, [], [])


def test_when_transitions_take_too_much_the_oldest_go_and_each_incident_keeps_its_newest(tmp_path: Path) -> None:
    store = IncidentStore(14 * DAY_MS, most_bytes=1 << 20, folder=tmp_path, wall=lambda: NOW / 1000)
    store.open()
    # Text that zlib cannot shorten.
    texts = iter(msgspec.json.encode([hash((number, "noise")) for number in range(40_000)]).decode()[1:-1].split(","))
    for incident in ("quiet", *(f"i{number % 5}" for number in range(100))):
        noise = ",".join(next(texts) for _ in range(390))
        one = make_transition(incident=incident, seq=int(store_seq(store, incident)) + 1, advice=noise)
        store.add(one, msgspec.json.encode(one))
        store.commit()
    store.prune()
    with store.reading() as db:
        (size,) = db.execute("SELECT sum(length(body)) FROM transitions").fetchone()
        assert size < 1 << 19
        assert lookup.numbers(db, "quiet") == [1]
        assert lookup.numbers(db, "i0")[-1] == 20
    store.close()


def store_seq(store: IncidentStore, incident: str) -> int:
    with store.reading() as db:
        found = lookup.incident(db, incident)
    return 0 if found is None else found.seq


def test_a_file_that_reaches_its_limit_is_an_error_and_a_new_one_begins_empty(tmp_path: Path) -> None:
    store = IncidentStore(DAY_MS, most_bytes=500_000, folder=tmp_path, wall=lambda: NOW / 1000)
    store.open()
    with pytest.raises(sqlite3.OperationalError, match="full"):
        fill(store)
    store.close()
    store.open()
    with store.reading() as db:
        assert lookup.count(db, lookup.where(SiteQuery())) == 0
    store.close()


def fill(store: IncidentStore) -> None:
    for number in range(2_000):
        one = make_transition(incident=f"{number}-{hash(number)}", advice=str(list(map(hash, "abcdefgh"))))
        store.add(one, msgspec.json.encode(one))


def test_a_store_that_is_not_open_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    store = IncidentStore(DAY_MS, folder=tmp_path)
    with pytest.raises(sqlite3.Error, match="not open"), store.reading():
        pass
    with pytest.raises(sqlite3.Error, match="not open"):
        store.commit()
    store.open()
    store.close()
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_reader_sees_one_state_while_the_writer_goes_ahead(filled: FilledSite) -> None:
    filled.add_incident("a")
    with filled.store.reading() as db:
        assert lookup.count(db, lookup.where(SiteQuery())) == 1
        filled.add_incident("b")
        assert lookup.count(db, lookup.where(SiteQuery())) == 1
    with filled.store.reading() as db:
        assert lookup.count(db, lookup.where(SiteQuery())) == 2


def test_a_reader_cannot_write(filled: FilledSite) -> None:
    with filled.store.reading() as db, pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM incidents")


def test_numbers_that_no_column_can_hold_are_bounded(filled: FilledSite) -> None:
    filled.add(make_transition(incident="i", seq=2**63 - 1, at=OPENED_AT))
    found = summary(filled, "i")
    assert found is not None
    assert found.seq == 2**53
