"""Records of earlier versions are read through migrations; a version without one is refused by its number."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.values.decoding import UndecodableError, carried
from detectors.values.stored_format import Document, StoredFormat


class Note(msgspec.Struct, tag_field="version", tag=4):
    """Version 2 had `name`, version 3 `names` as one text, version 4 has a list."""

    names: list[str]
    at: int = 0


def _to_3(document: Document) -> Document:
    return {"names": document["name"], "at": document["at"]}


def _to_4(document: Document) -> Document:
    return {**document, "names": document["names"].split()}


MIGRATIONS = {"the note": {2: _to_3, 3: _to_4}, "another": {1: _to_3}}
CODECS: list[Any] = [msgspec.json, msgspec.msgpack]


def note(codec: Any) -> StoredFormat[Note]:
    return StoredFormat("the note", Note, codec, MIGRATIONS)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "document",
    [
        {"version": 2, "name": "a b", "at": 7},
        {"version": 3, "names": "a b", "at": 7},
        {"version": 4, "names": ["a", "b"], "at": 7},
        {"names": ["a", "b"], "at": 7},
        {"version": 4, "names": ["a", "b"], "at": 7, "a field of a later minor version": 1},
    ],
)
def test_every_version_with_migrations_is_read_to_the_same_meaning(codec: Any, document: Document) -> None:
    assert note(codec).decode(codec.encode(document)) == Note(["a", "b"], 7)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [1, 5, 99, -1])
def test_a_version_without_a_migration_is_refused_with_the_versions_that_are_read(codec: Any, version: int) -> None:
    with pytest.raises(UndecodableError, match=rf"the note has version {version}, .* reads version 2 to 4") as refused:
        note(codec).decode(codec.encode({"version": version, "names": ["a"]}))
    assert refused.value.reason == "other_version"


def test_a_format_without_migrations_reads_its_own_version_alone() -> None:
    alone = StoredFormat("the note", Note, msgspec.json, {})
    assert (alone.version, alone.oldest, note(msgspec.json).oldest) == (4, 4, 2)
    with pytest.raises(UndecodableError, match=r"this flinkwatch reads version 4$"):
        alone.decode(b'{"version": 3, "names": "a b", "at": 7}')


def test_the_bytes_name_their_version_first() -> None:
    assert msgspec.json.encode(Note([])).startswith(b'{"version":4,')


@given(
    version=st.one_of(st.integers(), st.booleans(), st.text(), st.none(), st.floats(), st.lists(st.integers())),
    names=st.one_of(st.text(), st.integers(), st.none()),
)
def test_whatever_the_version_is_there_is_one_type_of_error(version: Any, names: Any) -> None:
    data = json.dumps({"version": version, "name": names, "names": names, "at": names}).encode()
    try:
        carried(note(msgspec.json).decode)(data)
    except UndecodableError:
        return
    assert version in {2, 3}
