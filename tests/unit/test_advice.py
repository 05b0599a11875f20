"""No advice costs someone the state of a job: whatever ends a job or a process says first how to keep it."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from detectors import DETECTORS
from detectors.patterns.keep_state import KEEP_STATE, about, keep_state

PROJECT = Path(__file__).parents[2]
RUNBOOKS = sorted((PROJECT / "docs" / "runbooks").glob("*.md"))

# What ends a job or a process, or removes what is kept of it. A new word belongs here, not into the exceptions.
DANGEROUS = re.compile(
    r"\b(?:cancel|stop|restart|kill|delet|remov|terminat|drain|redeploy|(?:re)?scal|suspend|replac|evict|reset|wip)"
    r"(?:e|es|ed|s|t|ts|ting|ting|ing|ling|led|ping|ped)?\b|\bshut(?:s|ting)? ?down\b|\bmov(?:e|ing) the job\b"
    r"|\bresubmit|\bdrop(?:s|ped)? (?:the|its) ",
    re.IGNORECASE,
)
# Reviewed: each has such a word and asks nobody to do it. A prohibition needs no entry.
HARMLESS = (
    "restart strategy",
    "Moving the job to other hosts does not help",
    "threads not stopped in close()",
    "Remove the root cause",
    "Nothing restarts this job",
    "Jobs are suspended while there is no leader",
    "the operator was removed on purpose",
    "Flink itself restarts it",
    "is replaced after",
    "If kills repeat",
    "does it grow with each restart?",
    "A restart or another host does not help",
    "Fix what restarts the job",
    "tolerate-suspended-connections",
    "by default Flink deletes the checkpoints of a job that is cancelled",
    "Flink restarts it from the last completed checkpoint",
)
PROHIBITION = re.compile(
    r"\b(?:do not|never|delete nothing)\b[^.:;]*",
    re.IGNORECASE,
)


def harmful(text: str) -> re.Match[str] | None:
    """The first dangerous word of a text that is not among the reviewed ones."""
    for phrase in HARMLESS:
        text = text.replace(phrase, " ")
    return DANGEROUS.search(PROHIBITION.sub(" ", " ".join(text.split())))


def first_danger(text: str) -> str:
    """The first dangerous word that stands before the sentence on how to keep the state; empty when there is none."""
    found = harmful(text.split(KEEP_STATE, maxsplit=1)[0])
    return found[0] if found else ""


def flattened(node: ast.AST) -> str:
    """The text of an expression, a call of `keep_state` as its beginning, anything else that is computed as a gap."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(flattened(p) for p in parts)
        case ast.BinOp(left=left, right=right):
            return flattened(left) + flattened(right)
        case ast.IfExp(body=body, orelse=other):
            return f"{flattened(body)} {flattened(other)}"
        case ast.Call(func=ast.Name(id="keep_state")):
            return f"{KEEP_STATE}: … "
        case ast.FormattedValue() | ast.Name() | ast.Attribute() | ast.Call():
            return "…"
        case _:
            return ""


def advices(tree: ast.AST) -> Iterator[str]:
    """Every text that becomes an advice: given as `advice=`, assigned to such a name, or returned for it."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="advice", value=value):
                yield flattened(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if "advice" in name.lower():
                yield flattened(value)
            case ast.FunctionDef(name=name) if "advice" in name:
                yield from (flattened(n.value) for n in ast.walk(node) if isinstance(n, ast.Return) and n.value)


def constants(tree: ast.Module) -> set[str]:
    """Module constants that are put behind another text: judged there, where what stands before them is known."""
    joined = {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        for name in ast.walk(node)
        if isinstance(name, ast.Name)
    }
    return {name for name in joined if "ADVICE" in name}


def of_module(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    behind = constants(tree)
    texts = {
        node.targets[0].id: flattened(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in behind
    }
    return [text for text in advices(tree) if text not in texts.values() and text.strip("… ")]


@pytest.mark.parametrize("path", sorted((PROJECT / "detectors").rglob("*.py")), ids=lambda p: p.stem)
def test_an_advice_that_ends_something_says_first_how_to_keep_the_state(path: Path) -> None:
    for text in of_module(path):
        assert not first_danger(text), f"{path.name}: {first_danger(text)!r} stands before {KEEP_STATE!r}: {text}"


def test_every_detector_has_an_advice_that_is_looked_at() -> None:
    # jobmanager_lost has its own in the module that describes the loss.
    elsewhere = {"jobmanager_lost": "detectors.patterns.jobmanager_loss"}
    for detector in DETECTORS:
        module = sys.modules[elsewhere.get(detector.kind, detector.__module__)]
        assert any(len(text) > 40 for text in advices(ast.parse(inspect.getsource(module)))), detector.kind


def test_a_way_around_a_known_issue_says_first_how_to_keep_the_state() -> None:
    issues = yaml.safe_load((PROJECT / "conf" / "known_issues.yaml").read_text())["known_issues"]
    assert len(issues) > 10
    for issue in issues:
        assert not first_danger(issue["workaround"]), (issue["id"], first_danger(issue["workaround"]))


def sections(text: str) -> dict[str, str]:
    """What stands under each bold heading."""
    parts = re.split(r"^\*\*([^*\n]+?)\.\*\*", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_a_runbook_that_ends_something_says_first_how_to_keep_the_state(path: Path) -> None:
    if path.stem in ("index", "keep_state"):
        return
    text = sections(path.read_text())["Do now"]
    mark = re.search(r"\[[Kk]eep (?:the|its) state\]\(keep_state\.md\)", text)
    before = text[: mark.start()] if mark else text
    found = harmful(before)
    assert found is None, f"{path.name}: {found and found[0]!r} stands before the link to keep_state.md"


@pytest.mark.parametrize(
    "text",
    [
        "Cancel the job meanwhile.",
        "Until then cancel it with a savepoint or raise the restart delay.",
        "For now: restart or move the job off it.",
        "Scale the job down, then delete the pod.",
        "Kill the TaskManager by hand.",
        f"Restart it. {KEEP_STATE}: copy chk-7.",
    ],
)
def test_what_may_lose_state_is_found(text: str) -> None:
    assert first_danger(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{KEEP_STATE}: copy chk-7. Then cancel the job.",
        "Do not restart the job by hand before that.",
        "A restart strategy that outlasts it.",
        "Nothing restarts this job. Find the cause.",
    ],
)
def test_what_is_harmless_is_let_through(text: str) -> None:
    assert not first_danger(text)


def test_the_job_is_named_where_it_is_known() -> None:
    assert "/jobs/7c77/checkpoints/config" in keep_state("7c77")
    assert "/jobs/JOB_ID/checkpoints/config" in keep_state()
    assert about("7c77", keep_state()) == keep_state("7c77")
    assert about("", keep_state()) == keep_state()
