"""Fragments of the changelog: `python -m tests.changelog` prints them by section, as CHANGELOG.md has them."""

import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "changelog.d"
SECTIONS = ("added", "changed", "deprecated", "removed", "fixed", "security")


def fragments() -> list[Path]:
    """The files, without the one that explains them."""
    return sorted(path for path in FOLDER.iterdir() if path.name != "README.md")


def problem(name: str, text: str) -> str:
    """What is wrong with a fragment; empty when nothing is."""
    parts = name.split(".")
    if len(parts) != 3 or parts[2] != "md" or parts[1] not in SECTIONS:
        return f"{name}: not named NAME.SECTION.md with a section of {', '.join(SECTIONS)}"
    if not text.strip() or text.lstrip().startswith(("-", "*", "#")):
        return f"{name}: not one entry in full sentences, without a bullet or heading"
    return ""


def printed(given: Iterable[tuple[str, str]]) -> str:
    """The entries by section, wrapped as CHANGELOG.md is."""
    found = list(given)
    lines: list[str] = []
    for section in SECTIONS:
        entries = [text for name, text in found if name.split(".")[1] == section]
        if entries:
            lines += [f"### {section.capitalize()}", ""]
            lines += [_entry(text) for text in entries]
            lines.append("")
    return "\n".join(lines)


def _entry(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 125, initial_indent="- ", subsequent_indent="  ")


if __name__ == "__main__":
    sys.stdout.write(printed((path.name, path.read_text(encoding="utf-8")) for path in fragments()))
