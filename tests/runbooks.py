"""What the runbooks say of their kinds, and what is made of it: the table of all kinds and the site's navigation.

`pytest tests/unit/detectors/test_registration.py -n 0 --regenerate` writes both into their files, between two marks.
"""

import re
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[1]
RUNBOOKS = PROJECT / "docs" / "runbooks"
INDEX, NAVIGATION = RUNBOOKS / "index.md", PROJECT / "mkdocs.yml"
AREAS = ("Checkpoints", "Processes and hosts", "Jobs", "Data", "Memory", "What is read")

_LINE = re.compile(r"^\*\*Reported\*\* (.+)\. \*\*Severity\*\* (.+)\. \*\*Area\*\* (.+)\.$", re.MULTILINE)
_MARKED = re.compile(
    r"(^[^\n]*kinds: made from the runbooks[^\n]*\n)(.*?)(^[^\n]*end of kinds[^\n]*$)", re.MULTILINE | re.DOTALL
)


class Runbook(NamedTuple):
    """The line below a runbook's title: when the kind is first reported, how severe it is, and where it belongs."""

    kind: str
    reported: str
    severity: str
    area: str


def runbook(kind: str) -> Runbook | None:
    """The line of a kind's runbook; None where there is no such page, or no such line."""
    page = RUNBOOKS / f"{kind}.md"
    found = _LINE.search(page.read_text(encoding="utf-8")) if page.exists() else None
    return Runbook(kind, *found.groups()) if found is not None and found[3] in AREAS else None


def runbooks() -> list[Runbook]:
    """All of them, in the order of their areas and names."""
    found = [one for page in RUNBOOKS.glob("*.md") if (one := runbook(page.stem)) is not None]
    return sorted(found, key=lambda one: (AREAS.index(one.area), one.kind))


def table() -> str:
    """All kinds, for `docs/runbooks/index.md`."""
    head = "\n| kind | first reported | severity |\n| --- | --- | --- |\n"
    return head + "".join(f"| [`{r.kind}`]({r.kind}.md) | {r.reported} | {r.severity} |\n" for r in runbooks()) + "\n"


def navigation() -> str:
    """All kinds by area, for `mkdocs.yml`."""
    lines, area = [], ""
    for one in runbooks():
        if one.area != area:
            area = one.area
            lines.append(f"      - {area}:\n")
        lines.append(f"          - {one.kind}: runbooks/{one.kind}.md\n")
    return "".join(lines)


def marked(file: Path) -> str:
    """What stands between the two marks of a file."""
    found = _MARKED.search(file.read_text(encoding="utf-8"))
    return found[2] if found is not None else ""


def write(file: Path, made: str) -> None:
    """Put something else between the two marks of a file."""
    text = file.read_text(encoding="utf-8")
    file.write_text(_MARKED.sub(lambda found: found[1] + made + found[3], text, count=1), encoding="utf-8")
