"""Every known issue is found by a line that the affected release prints, and not in a release with the fix.

`known_issue_lines.tsv` has, for each entry, the line as Flink or a library prints it, a version that is affected, one
that is not (if any), and a similar line. `known_issue_sources.tsv` has what proves them: a file of a release whose
source jar on Maven Central prints the line (`line`), has the text (`yes`), or does not have it (`no`).
`tests/bench/known_issue_sources.py` compares them with the jars.
"""

import csv
import re
from pathlib import Path

import pytest

from detectors.events.layouts import stack_line
from detectors.flink.stack_traces import StackTrace, StackTraces
from detectors.incident import Evidence, Finding
from detectors.incidents.cause_graph import KINDS
from detectors.incidents.known_issues import IssueEntry, find
from streaming.configuration.known_issues import shipped
from tests.bench.known_issue_sources import FILE as SOURCES
from tests.bench.known_issue_sources import Source, joined, sources
from tests.unit.detectors.incidents.test_lifecycle import finding

with Path(__file__).with_name("known_issue_lines.tsv").open(encoding="utf-8", newline="") as file:
    LINES = {row["id"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
ENTRIES = {entry.id: entry for entry in shipped().entries}
ROWS = sources(SOURCES)
OUTERMOST = {"FLINK-33442": "java.lang.Exception: Exception while creating StreamOperatorStateContext."}
ALIKE = {"FLINK-36630": "FLINK-27762"}
"""Entry → another one with the same line, which is named instead for a version that both affect."""


def findings(entry: IssueEntry, kind: str, text: str = "") -> list[Finding]:
    """The finding of the incident, and what the entry wants alongside."""
    evidence = [Evidence("flink.logs", 0, 1, 0, text)] if text else []
    others = [finding(other) for signature in entry.signature for other in signature.alongside]
    return [finding(kind, evidence=evidence), *others]


def named(entry: IssueEntry, kind: str, line: str, version: str) -> set[str]:
    """The known issues that the line shows: as evidence, and as a failure near the finding."""
    found = [find(shipped(), findings(entry, kind, line), version, StackTraces())]
    thrown = stack_line.read(line)
    if thrown is not None:
        fields = {**thrown[1], "frame": ""}
        stack = StackTrace("", "flink.logs/0/1", 1_000, fields, OUTERMOST.get(entry.id, line))
        found.append(find(shipped(), findings(entry, kind), version, StackTraces({"a": stack})))
    return {issue.id for issue in found if issue is not None}


@pytest.mark.parametrize("name", LINES)
def test_an_entry_is_found_by_its_line_in_an_affected_release_and_in_no_release_with_the_fix(name: str) -> None:
    row, entry = LINES[name], ENTRIES[name]
    assert name in named(entry, row["kind"], row["line"], row["affected"])
    if row["fixed"]:
        assert name not in named(entry, row["kind"], row["line"], row["fixed"])
    assert bool(row["fixed"]) == bool(entry.affected)


@pytest.mark.parametrize("name", LINES)
def test_a_similar_line_or_another_kind_of_incident_does_not_show_it(name: str) -> None:
    row, entry = LINES[name], ENTRIES[name]
    assert row["similar"] != row["line"]
    assert named(entry, row["kind"], row["similar"], row["affected"]) == set()
    kinds = {kind for signature in entry.signature for kind in signature.kinds}
    for other in sorted(KINDS - kinds - {a for s in entry.signature for a in s.alongside}):
        assert name not in named(entry, other, row["line"], row["affected"])


@pytest.mark.parametrize("name", LINES)
def test_every_line_has_a_source_of_its_affected_release(name: str) -> None:
    mine = [source for source in ROWS if source.id == name]
    assert any(source.has != "no" for source in mine)
    for source in mine:
        if source.has == "line":
            assert printed(source, LINES[name]["line"])


def printed(source: Source, line: str) -> bool:
    """Whether the constant parts of the text occur in the line, in their order."""
    code = re.fullmatch(r'"(.*)"', joined(source.text))
    parts = re.split(r'" \+ .*? \+ "', code[1]) if code else re.split(r"\{\}|%[ds]", source.text)
    return re.search(".*".join(re.escape(part.strip()) for part in parts), line) is not None


def test_every_source_belongs_to_an_entry() -> None:
    assert {source.id for source in ROWS} == LINES.keys()
    assert LINES.keys() <= ENTRIES.keys()


@pytest.mark.parametrize(("later", "earlier"), ALIKE.items())
def test_of_two_entries_with_the_same_line_the_one_that_affects_the_version_is_named(later: str, earlier: str) -> None:
    line, old, new = LINES[later]["line"], "1.14.5", "1.15.1"
    assert named(ENTRIES[later], "restart_loop", line, old) == {earlier}
    assert named(ENTRIES[later], "restart_loop", line, new) == {later}


def test_there_are_sixty_entries() -> None:
    assert len(ENTRIES) >= 60
