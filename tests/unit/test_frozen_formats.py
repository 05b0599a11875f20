"""What a release has written, every later release reads: `tests/fixtures/RELEASE`, made by `tests/frozen.py`."""

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from detectors.engine import fold
from detectors.engine.engines import Configuration
from detectors.engine.state import decode_state
from detectors.incidents.known_issues import IssueCatalogue
from detectors.settings.live import LiveSettings
from tests.frozen import FIXTURES, FORMATS, meaning, shapes

RELEASES = sorted((folder for folder in FIXTURES.iterdir()), key=lambda folder: [*map(int, folder.name.split("."))])
BY_NAME = {one.name: one for one in FORMATS}


def lines(name: str) -> list[Any]:
    """The lines of a file of every release, with an id each."""
    return [
        pytest.param(one, id=f"{folder.name}-{one.get('kind') or one['format']}")
        for folder in RELEASES
        for one in map(json.loads, (folder / name).read_text(encoding="utf-8").splitlines())
    ]


@cache
def frozen_shapes(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((folder / "shapes.json.gz").read_bytes()))
    return found


@pytest.mark.parametrize("frozen", lines("states.jsonl"))
def test_a_frozen_state_is_read_to_the_same_meaning(frozen: dict[str, Any]) -> None:
    """Also by every detector: none starts again without what it knew."""
    state = decode_state(base64.b64decode(frozen["data"]))
    assert msgspec.to_builtins(meaning(state)) == frozen["meaning"]
    assert frozen["kind"] in {finding[0] for incident in frozen["meaning"]["incidents"] for finding in incident[3]}
    engine = Configuration(LiveSettings(), "another", (), IssueCatalogue()).engine(frozen["cluster"])
    # Another configuration makes every detector read its state.
    assert fold.step(engine, frozen["cluster"], state, [], state.clock + 1_000).dropped == ()


@pytest.mark.parametrize("frozen", lines("records.jsonl"))
def test_a_frozen_record_is_read_to_the_same_meaning(frozen: dict[str, Any]) -> None:
    record = BY_NAME[frozen["format"]].decode(base64.b64decode(frozen["data"]))
    now = msgspec.to_builtins(record)
    then = {key: value for key, value in frozen["meaning"].items() if key != "version"}
    assert {key: now[key] for key in then} == then


def test_every_format_has_a_frozen_record_in_the_newest_release() -> None:
    frozen = {json.loads(line)["format"] for line in (RELEASES[-1] / "records.jsonl").read_text().splitlines()}
    assert frozen | {"the state of a cluster"} == set(BY_NAME)


def owner(name: str) -> str:
    return "the state of a cluster" if name.startswith("state of ") else name


@pytest.mark.parametrize("name", sorted(frozen_shapes(RELEASES[-1])))
def test_a_format_that_changes_gets_a_new_version(name: str) -> None:
    """Compared with the newest release. New fields with defaults at the end are no change: see `stored_format.py`.

    If this fails after an intended change: increase the tag of the format, write a migration, and keep the fixtures.
    """
    then, now = frozen_shapes(RELEASES[-1]), json.loads(json.dumps(shapes()))
    if name not in now:
        assert name.startswith("state of "), f"{name} has gone"  # a detector that was removed
        return
    released = then[owner(name)]["tag"]
    if BY_NAME[owner(name)].version == released:
        assert list(differences(then[name], now[name], name)) == []
    else:
        assert BY_NAME[owner(name)].version > released
        assert BY_NAME[owner(name)].oldest <= released, "no migration leads from the released version"


def differences(then: Any, now: Any, where: str) -> list[str]:
    """Where a form differs so that records of the one are not read as the other."""
    if isinstance(then, dict) and "fields" in then and isinstance(now, dict) and "fields" in now:
        found = [f"{where}: {key}" for key in ("form", "tag") if then.get(key) != now.get(key)]
        before, after = then["fields"], now["fields"]
        if then["form"] == "map":
            after_by_name = {field[0]: field for field in after}
            found += [f"{where}.{f[0]} has gone" for f in before if f[0] not in after_by_name]
            pairs = [(f, after_by_name[f[0]]) for f in before if f[0] in after_by_name]
            more = [f for f in after if f[0] not in {one[0] for one in before}]
        else:
            found += [f"{where}: fields have gone"] * (len(after) < len(before))
            found += [f"{where}.{a[0]} is now {b[0]}" for a, b in zip(before, after, strict=False) if a[0] != b[0]]
            pairs, more = list(zip(before, after, strict=False)), after[len(before) :]
        found += [f"{where}.{f[0]} is new and required" for f in more if f[2] == "required"]
        found += [f"{where}.{b[0]} is now required" for a, b in pairs if (a[2], b[2]) == ("optional", "required")]
        return found + [one for a, b in pairs for one in differences(a[1], b[1], f"{where}.{a[0]}")]
    if isinstance(then, dict) and isinstance(now, dict) and then.keys() == now.keys():
        if "one of" in then:
            return [f"{where}: {v} has gone" for v in then["one of"] if v not in now["one of"]]
        return [one for key in then for one in differences(then[key], now[key], f"{where}/{key}")]
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [one for a, b in zip(then, now, strict=True) for one in differences(a, b, where)]
    return [] if then == now else [f"{where}: {then} is now {now}"]


FORM = {"form": "map", "tag": None, "fields": [["a", "int", "required"], ["b", {"list": "str"}, "optional"]]}


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        (FORM["fields"], False),
        ([*FORM["fields"], ["c", "int", "optional"]], False),  # type: ignore[misc]
        ([*FORM["fields"], ["c", "int", "required"]], True),  # type: ignore[misc]
        ([["a", "int", "required"]], True),
        ([["a", "str", "required"], ["b", {"list": "str"}, "optional"]], True),
        ([["a", "int", "required"], ["b", {"list": "int"}, "optional"]], True),
        ([["a", "int", "required"], ["b", {"list": "str"}, "required"]], True),
    ],
)
@pytest.mark.parametrize("form", ["map", "array"])
def test_growing_at_the_end_is_no_change_and_all_else_is(fields: Any, differs: bool, form: str) -> None:
    assert bool(differences({**FORM, "form": form}, {**FORM, "form": form, "fields": fields}, "x")) == differs


def test_in_an_array_the_order_of_fields_counts() -> None:
    turned = {**FORM, "form": "array", "fields": [["b", "int", "required"], ["a", {"list": "str"}, "optional"]]}
    assert differences({**FORM, "form": "array"}, turned, "x")
