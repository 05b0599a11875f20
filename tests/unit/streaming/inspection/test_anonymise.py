"""Names are replaced by others of the same shape, each by its own, and detection finds the same."""

import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.events.event import LogEvent, Record
from detectors.events.identity import Identity
from detectors.events.names import filtered
from detectors.events.reader import Reader
from streaming.configuration.settings import Settings
from streaming.inspection.anonymise import Anonymiser
from streaming.inspection.export import anonymised, last_of_each, own_records, write_scenario
from streaming.recordings.recording import records_of
from tests.recorded import NAMES, recording, said

KEY = b"0123456789abcdef"
FAST = ("taskmanager-killed-1.9.3", "job-failed-at-once", "disk-full", "operator-failing")
words = st.text(string.ascii_letters + string.digits + "-_:./ ", min_size=1, max_size=30)


def shape(name: str) -> str:
    kinds = ((string.ascii_lowercase, "a"), (string.ascii_uppercase, "A"), (string.digits, "0"))
    return "".join(next((mark for kind, mark in kinds if c in kind), c) for c in name)


@given(words, words)
def test_two_names_never_become_one_and_each_keeps_its_shape(one: str, other: str) -> None:
    made = Anonymiser(KEY)
    assert shape(made.name(one)) == shape(one)
    assert (made.name(one) == made.name(other)) == (one == other)


@given(words)
def test_a_label_of_metrics_is_replaced_as_the_name_in_logs(name: str) -> None:
    made = Anonymiser(KEY)
    assert filtered(made.name(name)) == made.name(filtered(name))


def test_the_key_alone_decides() -> None:
    name = "payments-eu-17"
    assert Anonymiser(KEY).name(name) == Anonymiser(KEY).name(name) != name
    assert Anonymiser(b"another key of yours").name(name) != Anonymiser(KEY).name(name)


def test_words_of_flink_stay_and_the_ids_around_them_change() -> None:
    made = Anonymiser(KEY).name("shop-taskmanager-1-1")
    assert re.fullmatch(r"[a-z]{4}-taskmanager-\d-\d", made)
    assert not made.startswith("shop")
    container = Anonymiser(KEY).name("container_e21_1772000000000_0001_01_000007")
    assert re.fullmatch(r"container_e\d\d_\d{13}_\d{4}_\d\d_\d{6}", container)


def test_names_in_every_part_of_a_record_are_replaced() -> None:
    line = "2026-11-21 02:14:50,000 INFO a.B - at 10.1.2.3 in /data/payments/x by ann@example.com: payments on db-7"
    record = Record(
        "flink.logs", 0, 0, 1, b"payments/db-7", line.encode(), (("host", b"db-7"), ("cluster", b"payments"))
    )
    made = Anonymiser(KEY)
    made.learn(record, [LogEvent("x", "payments", "payments/db-7", "db-7", 1, 1, "t", 0, 0, {}, "")])
    found = made.record(record)
    whole = b" ".join((found.key or b"", found.value or b"", *(value for _, value in found.headers)))
    for name in (b"payments", b"db-7", b"10.1.2.3", b"ann", b"example"):
        assert name not in whole
    assert len(found.value or b"") == len(line)
    assert (found.value or b"").startswith(b"2026-11-21 02:14:50,000 INFO a.B - at ")


def exported(name: str, folder: Path) -> None:
    """Exports a scenario's clusters, and asserts that they lead to the same causes under other names."""
    settings, reader = Settings(), Reader(Identity(), frozenset({"flink.metrics"}))
    before = last_of_each(said(list(_records(name))))
    clusters = {event.cluster for r in _records(name) if isinstance(read := reader.read(r), list) for event in read}
    for number, cluster in enumerate(sorted(clusters)):
        records, names = anonymised(settings, own_records(settings, recording(name), cluster), cluster, KEY)
        after = last_of_each(write_scenario(settings, records, names.learned(cluster), folder / f"export-{number}"))
        assert [t.cause for t in after] == [t.cause for t in before if t.cluster == cluster]
        text = "".join(p.read_text(errors="replace") for p in sorted((folder / f"export-{number}").iterdir()))
        left = [one for one in names.names() if re.search(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![A-Za-z0-9])", text)]
        assert left == []


def _records(name: str) -> list[Record]:
    return list(records_of(recording(name)))


@pytest.mark.parametrize("name", FAST)
def test_an_export_leads_to_the_same_causes_and_has_no_original_name(name: str, tmp_path: Path) -> None:
    exported(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in FAST and "platform" not in name])
def test_every_export_leads_to_the_same_causes_and_has_no_original_name(name: str, tmp_path: Path) -> None:
    exported(name, tmp_path)
