"""Which known issue an incident looks like, and what is reported of an entry that cannot be read."""

from pathlib import Path

import pytest

from detectors.flink.stack_traces import StackTrace, StackTraces
from detectors.incident import Evidence, Series
from detectors.incidents.known_issues import find
from streaming.configuration.known_issues import FILE, IssueFile, in_force, load, read_files, shipped
from streaming.errors import ConfigError
from tests.unit.detectors.incidents.test_lifecycle import Timeline, finding

NOTHING = StackTraces()
WATCH = Evidence("flink.logs", 0, 1, 0, "KubernetesClientException: too old resource version: 5906722735 (5907278804)")


def named(kind: str, version: str = "", throwables: StackTraces = NOTHING, **more: object) -> str:
    found = find(shipped(), [finding(kind, **more)], version, throwables)
    return found.id if found is not None else ""


def test_the_leak_of_offsets_to_commit_is_known_by_its_meaning_and_version() -> None:
    assert named("zero_input_leak", "1.17.1") == named("zero_input_leak", "1.13.6") == "FLINK-33231"
    assert named("zero_input_leak", "1.20.5") == named("zero_input_leak", "1.12.7") == ""


def test_an_unknown_version_may_be_affected_and_that_is_reported() -> None:
    found = find(shipped(), [finding("zero_input_leak")], "", NOTHING)
    assert found is not None
    assert "version of Flink is unknown" in found.applies


def test_a_kubernetes_watch_that_expired_is_known_from_evidence_or_from_a_failure_near_it() -> None:
    issue = "FLINK-15836/FLINK-20417"
    assert named("jobmanager_lost", "1.11.0", evidence=[WATCH]) == issue
    assert named("jobmanager_lost", "1.20.5", evidence=[WATCH]) == ""
    assert named("jobmanager_lost", "1.11.0") == ""
    stack = StackTrace("", "flink.logs/0/1", 1_000, {"class": "KubernetesClientException", "message": WATCH.text})
    assert named("jobmanager_lost", "1.11.0", StackTraces({"jm": stack})) == issue
    stack.timestamp = 3_600_000
    assert named("jobmanager_lost", "1.11.0", StackTraces({"jm": stack})) == ""


def test_what_must_be_alongside_is_asked_for() -> None:
    kill, loop = finding("memory_limit_kill"), finding("restart_loop")
    alone, both = find(shipped(), [kill], "1.12.0", NOTHING), find(shipped(), [kill, loop], "1.12.0", NOTHING)
    assert alone is None
    assert both is not None
    assert both.id == "FLINK-21986"
    assert "possible" in both.applies


def test_an_issue_once_named_stays_when_what_named_it_is_gone_from_the_findings() -> None:
    watch = "FLINK-15836/FLINK-20417"
    found = find(shipped(), [finding("jobmanager_lost")], "1.11.0", NOTHING, watch)
    assert found is not None
    assert found.id == watch
    found = find(shipped(), [finding("zero_input_leak")], "1.17.1", NOTHING, watch)
    assert found is not None
    assert found.id == "FLINK-33231"


def test_the_file_holds_the_issues_that_matter_most() -> None:
    ids = " ".join(i.id for i in shipped().entries)
    for issue in ("33231", "15836", "20417", "28250", "33201", "24401", "21986"):
        assert f"FLINK-{issue}" in ids


ENTRY = """
known_issues:
  - id: FLINK-1
    title: Something that is long enough
    signature: [{kinds: [heap_exhaustion], series: heap, place: orders}]
    fixed_in: Flink 1.2
    workaround: Do something else instead.
    link: https://example.org/1
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "known.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_metrics_and_places_can_be_asked_for(tmp_path: Path) -> None:
    issues = load(written(tmp_path, ENTRY))
    floor = Series("heap floor", "bytes", [(0, 1.0)])
    assert find(issues, [finding("heap_exhaustion", series=floor, entity={"topic": "orders"})], "", NOTHING)
    assert not find(issues, [finding("heap_exhaustion", entity={"topic": "orders"})], "", NOTHING)
    assert not find(issues, [finding("heap_exhaustion", series=floor)], "", NOTHING)


@pytest.mark.parametrize(("connector", "note"), [("", ""), ("connector: Kafka 3", "; affected connector: Kafka 3")])
def test_what_is_reported_of_versions_names_the_connector_where_that_counts(
    tmp_path: Path, connector: str, note: str
) -> None:
    text = ENTRY.replace(", series: heap, place: orders", "").replace("fixed_in:", f"{connector}\n    fixed_in:")
    known = find(load(written(tmp_path, text)), [finding("heap_exhaustion")], "", NOTHING)
    assert known is not None
    assert known.applies == f"any version of Flink; the match is likely{note}"


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            "heap_exhaustion",
            "heap_exaustion",
            (":5: known_issues[0].signature[0].kinds[0]: ", "not a kind of finding", "heap_exhaustion"),
        ),
        ("series: heap", "series: '(heap'", ("known_issues[0].signature[0].series", "not a regular expression")),
        ("fixed_in: Flink 1.2", "", (":3: known_issues[0].fixed_in: is required and missing",)),
        (
            "fixed_in:",
            "fixedin: x\n    fixed_in:",
            (":6: known_issues[0].fixedin: unknown key; did you mean",),
        ),
        ("fixed_in:", "affected: [{since: 1.x}]\n    fixed_in:", ("known_issues[0].affected[0].since", 'like "1.17"')),
        (
            "fixed_in:",
            "affected: [{since: '1.17', before: '1.9'}]\n    fixed_in:",
            ("known_issues[0].affected", "since 1.17 must be lower than before 1.9"),
        ),
        (
            "fixed_in:",
            "affected: [{since: '1.9', before: '1.9'}]\n    fixed_in:",
            ("must be lower",),
        ),
        ("https://example.org/1", "javascript:alert(1)", (":8: known_issues[0].link",)),
        ("id: FLINK-1", "id: 7", ("known_issues[0].id: must be text",)),
        ("known_issues:", "issues:", ("known_issues: is required and missing",)),
        ("title:", "title: [", ("not YAML",)),
    ],
)
def test_an_error_names_file_line_key_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, parts: tuple[str, ...]
) -> None:
    file = written(tmp_path, ENTRY.replace(old, new, 1))
    with pytest.raises(ConfigError) as error:
        load(file)
    for part in (str(file), *parts):
        assert part in str(error.value)


def test_an_id_is_unique(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ids must be unique: FLINK-1"):
        load(written(tmp_path, ENTRY + ENTRY.split("known_issues:\n")[1]))


def test_a_site_adds_entries_of_its_own(tmp_path: Path) -> None:
    file = written(tmp_path, ENTRY.replace(", series: heap, place: orders", ", text: acme connector"))
    issues = in_force(read_files((str(file),)))
    found = find(issues, [finding("heap_exhaustion", summary="Acme connector")], "1.20.5", NOTHING)
    assert found is not None
    assert found.id == "FLINK-1"
    assert {e.id for e in issues.entries} == {"FLINK-1", *(e.id for e in shipped().entries)}
    assert in_force() is shipped()
    assert issues.hash != shipped().hash


def test_an_entry_of_a_site_replaces_the_shipped_one_with_its_id_and_is_tried_by_its_certainty(tmp_path: Path) -> None:
    own = ENTRY.replace("FLINK-1", "FLINK-33231").replace("fixed_in:", "certainty: possible\n    fixed_in:")
    issues = in_force((IssueFile("a.yaml", own.encode()),))
    (entry,) = [e for e in issues.entries if e.id == "FLINK-33231"]
    assert entry.title == "Something that is long enough"
    assert len(issues.entries) == len(shipped().entries)
    order = [e.certainty for e in issues.entries]
    assert order == sorted(order, key=("sure", "likely", "possible").index)


def test_the_files_of_a_site_are_checked_like_the_shipped_one(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    with pytest.raises(ConfigError, match=r"missing\.yaml: No such file"):
        read_files((str(missing),))
    bad = written(tmp_path, ENTRY.replace("heap_exhaustion", "heap_exaustion"))
    with pytest.raises(ConfigError, match=r"known\.yaml:5: known_issues\[0\]\.signature\[0\]\.kinds\[0\]"):
        read_files((str(bad),))
    with pytest.raises(ConfigError, match=r"b\.yaml: FLINK-1 is already in a\.yaml"):
        in_force((IssueFile("a.yaml", ENTRY.encode()), IssueFile("b.yaml", ENTRY.encode())))


def test_the_file_lies_where_the_wheel_puts_it() -> None:
    assert FILE.parts[-2:] == ("conf", "known_issues.yaml")


def test_a_known_issue_that_shows_later_is_reported_once() -> None:
    timeline = Timeline()
    timeline.context.issues, timeline.context.version = shipped(), "1.11.0"
    timeline.report(finding("jobmanager_lost"), finding("jobmanager_lost", at=1, evidence=[WATCH]))
    timeline.report(
        finding("jobmanager_lost", at=2, evidence=[WATCH]), finding("jobmanager_lost", at=3, evidence=[WATCH])
    )
    transitions = [(t.at, t.reason, t.known_issue and t.known_issue.id) for t in timeline.transitions]
    issue = "FLINK-15836/FLINK-20417"
    assert transitions == [(0, "", None), (1, f"looks like known issue {issue}", issue)]


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("1.12.7", False),
        ("1.13", True),
        ("1.13.0", True),
        ("1.17.1", True),
        ("1.18.0", False),
        ("1.13.6-SNAPSHOT", True),
    ],
)
def test_a_version_is_affected_from_the_first_and_no_longer_with_the_one_that_fixes_it(
    version: str, affected: bool
) -> None:
    assert bool(named("zero_input_leak", version)) is affected


@pytest.mark.parametrize(("at", "near"), [(-600_000, True), (-600_001, False), (600_050, True), (600_051, False)])
def test_a_failure_is_near_a_finding_up_to_ten_minutes_before_or_after(at: int, near: bool) -> None:
    stack = StackTrace("", "flink.logs/0/1", at, {"class": "KubernetesClientException", "message": WATCH.text})
    found = named("jobmanager_lost", "1.11.0", StackTraces({"jm": stack}), since=0, at=50)
    assert bool(found) is near
