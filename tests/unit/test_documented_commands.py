"""README and docs: each command can be typed as it stands there, each file that they name is there."""

import re
import shlex
from pathlib import Path

import click
import pytest

from streaming.cli.main import cli
from streaming.configuration.settings import Settings, load

PROJECT = Path(__file__).parents[2]
PAGES = [
    PROJECT / "README.md",
    PROJECT / "CHANGELOG.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "tests" / "README.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
]
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_FILE = re.compile(r"(?<![\w/.-])(?:bin|conf|dashboards|detectors|docker|docs|k8s|sinks|streaming|tests)/[\w./-]*\w")
_WRITTEN_BY_THE_READER = {"docker/flinkwatch.env"}
_PLACEHOLDER = re.compile(r"KIND|NAME|SUBJECT")


def name_of(page: Path) -> str:
    return str(page.relative_to(PROJECT))


def blocks(text: str, *languages: str) -> list[str]:
    """What stands between fences of these languages."""
    return [code for language, code in _BLOCK.findall(text) if language in languages]


def typed(text: str) -> list[tuple[bool, str]]:
    """(whole, command) for each `flinkwatch …`: whole between fences, while a sentence may name a part of one."""
    code = "\n".join(blocks(text, "", "sh", "bash", "console")).replace("\\\n", " ")
    lines = [(True, line.strip()) for line in code.splitlines()]
    lines += [(False, " ".join(quoted.split())) for quoted in _INLINE.findall(_BLOCK.sub("", text))]
    parts = [(whole, part.strip()) for whole, line in lines for part in re.split(r";|&&|\|", line.split("  #")[0])]
    begin = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:bin/)?flinkwatch (?=[a-z-])")
    return [(whole, begin.sub("", part)) for whole, part in parts if begin.search(part)]


def parse(command: str, whole: bool) -> None:
    """Raises click.UsageError when there is no such command or option; values of files need not be there."""
    words = re.split(r"\s[<>]\s?", command)[0]
    left = [word for word in shlex.split(words) if word not in {"…", "..."}]
    at: click.Command = cli
    context = click.Context(cli, info_name="flinkwatch")
    while isinstance(at, click.Group) and left and left[0] not in {"-h", "--help", "--version"}:
        if left[0].startswith("-"):
            left = at.make_parser(context).parse_args(left)[1]
            continue
        found = at.get_command(context, left.pop(0))
        if found is None:
            raise click.UsageError(f"no such command: {command}")
        at, context = found, click.Context(found, parent=context, info_name=found.name)
    if isinstance(at, click.Group) and whole:
        raise click.UsageError(f"half a command: {command}")
    # An option that is only named in a sentence has no value there.
    values = left if whole else [f"{w}=1" if takes_value(at, w) and w == left[-1] else w for w in left]
    given, _, _ = at.make_parser(context).parse_args(list(values))
    # What is not given has a marker of click's own.
    there = {name for name, value in given.items() if isinstance(value, str | list | tuple) and value}
    missing = [p.name for p in at.params if p.required and p.name not in there]
    if whole and missing:
        raise click.UsageError(f"{missing} missing: {command}")


def takes_value(command: click.Command, word: str) -> bool:
    return any(isinstance(p, click.Option) and word in p.opts and not p.is_flag for p in command.params)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_of_flinkwatch_is_one(page: Path) -> None:
    for whole, command in typed(page.read_text()):
        parse(command, whole)


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        ("deliver --quick", True),
        ("deliver --quick", False),
        ("incidents list", True),
        ("config chek my.yaml", True),
        ("report", True),
        ("config", True),
        ("silence add --until", True),
    ],
)
def test_a_command_that_is_none_would_be_found(command: str, whole: bool) -> None:
    with pytest.raises(click.UsageError):
        parse(command, whole)


def test_commands_are_found_where_they_stand() -> None:
    text = "`flinkwatch run --a` and\n```sh\nA=b bin/flinkwatch config check my.yaml && \\\n  flinkwatch tune\n```\n"
    assert typed(text) == [(True, "config check my.yaml"), (True, "tune"), (False, "run --a")]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    text = page.read_text()
    code = "\n".join([*blocks(text, "", "sh", "bash"), *_INLINE.findall(_BLOCK.sub("", text))])
    named = {name for name in _FILE.findall(code) if not _PLACEHOLDER.search(name)}
    missing = {name for name in named if not (PROJECT / name).exists()}
    assert missing <= _WRITTEN_BY_THE_READER


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent.name != "docs"], ids=name_of)
def test_every_link_outside_of_the_site_leads_somewhere(page: Path) -> None:
    """Those between pages of the site fail its strict build."""
    for link in _LINK.findall(_BLOCK.sub("", page.read_text())):
        if not link.startswith(("http", "#")):
            path, _, anchor = link.partition("#")
            target = page.parent / path
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_example_of_a_configuration_loads(page: Path, tmp_path: Path) -> None:
    sections = set(Settings.model_fields)
    for number, text in enumerate(blocks(page.read_text(), "yaml")):
        if re.findall(r"^(\w+):", text, re.MULTILINE) and set(re.findall(r"^(\w+):", text, re.MULTILINE)) <= sections:
            file = tmp_path / f"{number}.yaml"
            file.write_text(text)
            assert load(file, {}) != Settings()
