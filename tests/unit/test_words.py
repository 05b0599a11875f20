"""Texts and names use the words of the field: `WORDS` lists those that do not, each with what to write in its place.

The style is plain technical English, as in Prometheus', Flink's and Kubernetes' documentation. A line that needs one of
these words all the same is listed in `EXCEPTIONS` with the reason.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FOLDERS = ("bin", "conf", "dashboards", "detectors", "docker", "docs", "k8s", "sinks", "streaming")
FILES = ("README.md", "mkdocs.yml", "pyproject.toml")
SUFFIXES = {"", ".py", ".sh", ".md", ".yaml", ".yml", ".toml", ".properties", ".txt", ".css"}

WORDS = {
    "told|tells?|telling": "notified, reported, shows",
    "said|saying": "reported, notified, written",
    "stands?(?!-in| out)": "exists, is posted, is open, is at",
    "anew": "again",
    "nobody": "no one, not … anyone",
    "whoever": "anyone who, if you",
    "likewise": "also",
    "hence|thus": "so",
    "mend(?:s|ed|ing)?": "fix",
    "put(?:s|ting)? off": "postpone, retry later",
    "hear(?:s|d)? of": "receive from, last seen",
    "beside": "next to, alongside, as well as",
    "(?:goes|went) on": "continues, is still open",
    "is over": "resolved, ends",
    "faster and faster": "growth is accelerating",
    "lanes?": "receiver",
    "ledgers?": "notification log",
    "pulses?|beats?": "heartbeat",
    "couriers?": "delivery worker",
    "settlers?": "delivery policy",
    "gates": "rate limiter",
    "handovers?": "partition ownership",
    "revivals?|revive[sd]?": "redelivery",
    "leash": "die with the parent",
}
"""Pattern → what to write instead. Words are found inside identifiers too; a space also matches `_`."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("streaming/recordings/followed_log.py", "file.tell()"): "the method of a Python file",
}
"""(file, part of the line) → why the word stays."""

_PATTERN = re.compile(rf"(?<![a-z])(?:{'|'.join(WORDS)})(?![a-z])".replace(" ", r"[\s_]"))
_TEST = re.compile(r"tests/[\w/]+\.py(?:::\w+)?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_of(line: str) -> list[str]:
    """The words of the list in a line, in prose or in names such as `told_at` and `ToldAt`; names of tests are free."""
    return _PATTERN.findall(_CAMEL.sub("_", _TEST.sub("", line)).lower())


def texts() -> Iterator[tuple[str, str]]:
    """Every text that is searched: (path in the project, content)."""
    found = [path for folder in FOLDERS for path in sorted((PROJECT / folder).rglob("*"))]
    for path in (*found, *(PROJECT / name for name in FILES)):
        if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts:
            yield str(path.relative_to(PROJECT)), path.read_text(encoding="utf-8")


def hits(path: str, text: str) -> Iterator[str]:
    """`file:line:word` for each word of the list that no exception covers."""
    excused = [part for file, part in EXCEPTIONS if file == path]
    for number, line in enumerate(text.splitlines(), 1):
        if not any(part in line for part in excused):
            yield from (f"{path}:{number}:{word}" for word in words_of(line))


def test_no_text_and_no_name_uses_a_word_of_the_list() -> None:
    found = [hit for path, text in texts() for hit in hits(path, text)]
    assert not found, f"{len(found)} words; see WORDS for what to write instead\n" + "\n".join(found)


def test_every_exception_is_still_needed() -> None:
    content = dict(texts())
    unused = [
        (file, part)
        for file, part in EXCEPTIONS
        if not any(part in line and words_of(line) for line in content.get(file, "").splitlines())
    ]
    assert unused == []


@pytest.mark.parametrize(
    "line",
    [
        "It is told again.",
        "told_at = 1",
        "class ToldAt:",
        "PUT_OFF",
        "self._beat: int",
        "def put_off(",
        "whoever reads",
    ],
)
def test_a_word_is_found_in_prose_and_in_names(line: str) -> None:
    assert words_of(line)


@pytest.mark.parametrize("line", ["heartbeat", "understand", "a stand-in for Slack", "besides", "planes", "Heartbeats"])
def test_a_longer_word_that_contains_one_is_no_hit(line: str) -> None:
    assert not words_of(line)
