"""docs/architecture.md agrees with the tree: the picture of the rooms, the tables of rooms and of libraries.

`python -m pytest tests/unit/test_architecture.py -n 0 --regenerate` draws docs/images/rooms.svg again, from the
import contracts in pyproject.toml and the folders.
"""

import re
import tomllib
from html import escape
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = PROJECT / "docs" / "images" / "rooms.svg"
PYPROJECT: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
RINGS = {
    "streaming": "the program; only job imports pyspark",
    "sinks": "incidents to people and Prometheus",
    "detectors": "pure: records in, incidents out",
}
_WIDTH, _GAP, _ROW, _TOP = 270, 24, 30, 74


def folders(ring: str) -> list[str]:
    """The rooms of a ring: its folders with modules."""
    return sorted(path.name for path in (PROJECT / ring).iterdir() if path.is_dir() and any(path.glob("*.py")))


def layers(ring: str) -> list[list[str]]:
    """The rooms of a ring by layer, importing first; one layer if no contract orders them."""
    for contract in PYPROJECT["tool"]["importlinter"]["contracts"]:
        if contract.get("containers") == [ring]:
            return [re.split(r" [:|] ", layer.strip("()")) for layer in contract["layers"]]
    return [folders(ring)]


def rows(ring: str) -> list[str]:
    """The rows of boxes in the picture."""
    found = layers(ring)
    return found[0] if len(found) == 1 else ["   ".join(layer) for layer in found]


def draw() -> str:
    """The picture as SVG: a column for each ring, imports run to the right and downwards."""
    height = _TOP + max(len(rows(ring)) for ring in RINGS) * _ROW + 16
    width = len(RINGS) * (_WIDTH + _GAP) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (ring, what) in enumerate(RINGS.items()):
        parts += _column(ring, what, _GAP + number * (_WIDTH + _GAP), height)
    for number in range(1, len(RINGS)):
        x = number * (_WIDTH + _GAP) + _GAP / 2
        parts.append(f'<text x="{x:g}" y="46" font-size="22" text-anchor="middle" fill="#e6526f">→</text>')
    return "\n".join([*parts, "</svg>", ""])


def _column(ring: str, what: str, left: int, height: int) -> list[str]:
    parts = [
        f'<rect x="{left}" y="12" width="{_WIDTH}" height="{height - 24}" rx="6" fill="#f5f6fa" stroke="#8a93a6"/>',
        f'<text x="{left + 12}" y="36" font-size="17" font-weight="bold">{ring}/</text>',
        f'<text x="{left + 12}" y="56" font-size="11" fill="#444444">{escape(what)}</text>',
    ]
    for number, row in enumerate(rows(ring)):
        top = _TOP + number * _ROW
        fill = "#ffe3b8" if row == "job" else "#ffffff"
        parts += [
            f'<rect x="{left + 12}" y="{top}" width="{_WIDTH - 40}" height="22" fill="{fill}" stroke="#8a93a6"/>',
            f'<text x="{left + 22}" y="{top + 15}" font-size="12" xml:space="preserve">{escape(row)}</text>',
        ]
    if len(layers(ring)) > 1:
        end = _TOP + (len(rows(ring)) - 1) * _ROW + 20
        x = left + _WIDTH - 14
        parts.append(f'<path d="M{x} {_TOP + 4}V{end}m-5 -7l5 7l5 -7" fill="none" stroke="#e6526f" stroke-width="2"/>')
    return parts


def test_the_picture_shows_the_rooms_and_their_order(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--regenerate"):
        PICTURE.write_text(draw(), encoding="utf-8")
    assert PICTURE.read_text(encoding="utf-8") == draw()


@pytest.mark.parametrize("ring", RINGS)
def test_a_contract_orders_rooms_that_exist(ring: str) -> None:
    named = {room for layer in layers(ring) for room in layer}
    there = {path.stem for path in (PROJECT / ring).iterdir()}
    assert named <= there


def section(title: str) -> str:
    """The text under a heading of the page."""
    return PAGE[PAGE.index(f"\n## {title}\n") :].split("\n## ")[1]


@pytest.mark.parametrize("ring", RINGS)
def test_each_room_is_in_the_table_of_rooms(ring: str) -> None:
    assert [room for room in folders(ring) if f"`{ring}/{room}/`" not in section("Rooms")] == []


def test_each_dependency_is_in_the_table_of_libraries() -> None:
    names = [re.split(r"[<>=]", text)[0] for text in PYPROJECT["project"]["dependencies"]]
    table = section("Libraries")
    assert [name for name in names if not re.search(rf"^\|.*\b{re.escape(name)}\b.*\|.*\|$", table, re.MULTILINE)] == []
