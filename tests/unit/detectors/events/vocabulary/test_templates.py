"""The vocabulary held against every log call and exception text of the Flink release jars 1.9.3 to 2.3.0.

`templates.tsv.gz` has a line for each: kind (a level, or `throw`), template, versions. ` | ` stands between the
constants of one call: parts of one text, or several texts. Arguments are filled in with what Flink would write there.
`reviewed.tsv` has the templates whose beginning a log pattern matches, reviewed and found to have its meaning.
"""

import gzip
import re
from functools import cache
from itertools import islice, pairwise, product
from pathlib import Path
from typing import NamedTuple

import pytest

from detectors.events.vocabulary import match as vocabulary
from detectors.events.vocabulary.pattern import LogPattern

JOB = "e04f0bd47405a7a169914793d27ced1f"
VERTEX = "cbc357ccb763df2852fee8c4fc7d55f2"
ATTEMPT = f"{JOB}_{VERTEX}_0_0"
TM = "10.0.0.1:41000-ab12cd"
PLACE = f"{TM} @ tm-1 (dataPort=41001)"
ADDRESS = "akka.tcp://flink@10.0.0.1:6123/user/rpc/resourcemanager_0"
TASK = "Source: orders (1/4)#0"
RUNNER = "DefaultDispatcherRunner"
EVERY = (JOB, TASK, TM, ADDRESS, ATTEMPT, "12", "RUNNING", RUNNER, "PT5M", "'path'")
# What an argument may be, by the text before and behind it; for calls with more arguments than can be tried with EVERY.
GUESSES = (
    (r"or complete checkpoint $", r"", ("12", "UNKNOWN_CHECKPOINT_ID")),
    (r"(?:checkpoint|attempt|SIGNAL|code|@|attempt \(?#) $|#$", r"", ("12",)),
    (r"", r"^ ?(?:bytes|ms|tasks|seconds|consecutive)", ("12",)),
    (r"=$", r"", ("12",)),
    (r"Version: $", r"", ("1.20.5",)),
    (r"attempt id $", r"", (ATTEMPT, JOB)),
    (r"(?:job|Job) '?$|job id $", r"", (JOB, "orders")),
    (r"\($", r"^\)", (JOB, ATTEMPT)),
    (r"(?:state|status) $", r"", ("RUNNING",)),
    (r" (?:to|from) $", r"", ("RUNNING", PLACE, JOB)),
    (r" task $", r"", (ATTEMPT, JOB)),
    (r"Could not resolve $", r"^ address", ("ResourceManager",)),
    (r"^ address $", r"", (ADDRESS,)),
    (r" (?:on|at) $", r"", (PLACE,)),
    (r"Deploying $|^$", r"", (TASK, RUNNER, "orders")),
    (r"", r"", (TM,)),
)
MOST = 500
VERSIONS = ("1.9.3", "1.11.4", "1.13.6", "1.14.6", "1.17.2", "1.20.5", "2.0.2", "2.3.0")

ELSEWHERE = {
    "was deleted and made again, its offsets began again": "flinkwatch's own driver",
    "a shared resource fails: cluster=": "flinkwatch's own driver",
    "a shared resource works again: cluster=": "flinkwatch's own driver",
    "CheckpointStatsTracker": "Flink's event and span reporters, whose attributes flink_events.py joins",
    "JobStatusChangeEvent": "Flink's event reporter",
    "JobFailureEvent": "Flink's event reporter",
    "AllSubtasksStatusChangeEvent": "Flink's event reporter",
    "Loading configuration property: ": "GlobalConfiguration",
    "Loading configuration property: execution.checkpointing.timeout, ": "GlobalConfiguration",
    "address is now gated for": "Akka, Pekko",
    "Ask timed out on ": "Akka, Pekko",
    "State change: SUSPENDED": "Curator",
    "State change: LOST": "Curator",
    "State change: CONNECTED": "Curator",
    "State change: RECONNECTED": "Curator",
    "Background operation retry gave up": "Curator",
    "Background retry gave up": "Curator",
    "Ensure path threw exception": "Curator",
    "negotiated timeout = ": "ZooKeeper",
    "Exception occurred while renewing lock": "fabric8",
    "memory limit. Current usage": "YARN's NodeManager",
    "memory limits. Current usage": "YARN's NodeManager",
    "Timed out after ": "YARN's ResourceManager",
    "as it is now LOST": "YARN's ResourceManager",
    "Node Transitioned from ": "YARN's ResourceManager",
    "Container Transitioned from ": "YARN's ResourceManager",
    "Expired:appattempt": "YARN's ResourceManager",
    "status is now: NodeNotReady": "Kubernetes",
    "status is now: NodeReady": "Kubernetes",
    "Kubernetes event: ": "flinkwatch itself, of an event of Kubernetes",
    ".cc": "a native helper of Kinesis",
    "Offset commit on checkpoint is disabled": "the Kafka connector",
    "Failed to commit consumer offsets for checkpoint ": "the Kafka connector",
    "its producer is already fenced. This means": "the Kafka connector",
    "its producer is already fenced. If this warning appears": "the Kafka connector",
    "because it's in an invalid state.": "the Kafka connector",
    "encountered error and data has been potentially lost.": "the Kafka connector",
    "transaction.timeout.ms = ": "the Kafka client",
    "transactional.id = ": "the Kafka client",
    "could not be established.": "Kafka's clients",
    "due to socket connection setup timeout": "Kafka's clients",
    "unread records were removed by Kafka": "flinkwatch itself",
    "flinkwatch has read up to the end of": "flinkwatch itself",
}
"""Anchors of wordings that flink-dist does not print → who does."""


class Template(NamedTuple):
    kind: str
    text: str
    versions: frozenset[str]


class Match(NamedTuple):
    template: Template
    line: str
    left: str
    """Words of the template after the part that the pattern matches."""


@cache
def templates() -> tuple[Template, ...]:
    rows = gzip.decompress(Path(__file__).with_name("templates.tsv.gz").read_bytes()).decode().splitlines()
    return tuple(Template(k, t, frozenset(v.split(","))) for k, t, v in (row.split("\t") for row in rows))


@cache
def reviewed() -> frozenset[tuple[str, str]]:
    rows = Path(__file__).with_name("reviewed.tsv").read_text(encoding="utf-8").splitlines()
    return frozenset((event_type, text) for event_type, text in (row.split("\t") for row in rows))


@cache
def filled(text: str) -> tuple[str, ...]:
    """Lines that a template may become, most likely ones only."""
    parts = text.split(" | ")
    texts = dict.fromkeys([text.replace(" | ", "{}"), *(parts if len(parts) > 1 else ())])
    return tuple(line for t in texts for line in _filled(t))


def _filled(text: str) -> list[str]:
    parts = text.split("{}")
    pairs = list(pairwise(parts))
    slots = [EVERY] * len(pairs)
    if len(pairs) > 2:
        slots = [next(v for b, a, v in GUESSES if re.search(b, x) and re.search(a, y)) for x, y in pairs]
    return ["".join(a + b for a, b in zip(parts, [*v, ""], strict=True)) for v in islice(product(*slots), MOST)]


@cache
def matches(log_pattern: LogPattern) -> tuple[Match, ...]:
    """The templates that the pattern matches. Texts of exceptions are in stacks, where only `anywhere` is searched."""
    pattern = re.compile(log_pattern.pattern)
    search = pattern.search if log_pattern.anywhere else pattern.match
    found = []
    for template in templates():
        if template.kind == "throw" and not log_pattern.anywhere:
            continue
        hits = [
            (line, hit.end()) for line in filled(template.text) if log_pattern.anchor in line and (hit := search(line))
        ]
        if hits:
            line, end = max(hits, key=lambda h: h[1] / len(h[0]))
            found.append(Match(template, line, _words(line[end:], template.text)))
    return tuple(found)


def _words(tail: str, text: str) -> str:
    literal = set(re.findall(r"[A-Za-z]{3,}", text.replace("{}", "\0")))
    return " ".join(w for w in re.findall(r"[A-Za-z]{3,}", tail) if w in literal)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in version.split(".")[:2])


def _named(log_pattern: LogPattern) -> str:
    return f"{log_pattern.event_type}-{log_pattern.anchor}"


def _expected(log_pattern: LogPattern) -> list[str]:
    until = _minor(log_pattern.until) if log_pattern.until else (99,)
    return [v for v in VERSIONS if _minor(log_pattern.since) <= _minor(v) <= until]


@pytest.mark.parametrize("log_pattern", vocabulary.PATTERNS, ids=_named)
def test_since_and_until_are_the_versions_of_the_jars_that_print_it(log_pattern: LogPattern) -> None:
    printed = {v for m in matches(log_pattern) for v in m.template.versions}
    if log_pattern.anchor in ELSEWHERE:
        return
    assert [v for v in VERSIONS if v in printed] == _expected(log_pattern), (
        f"{log_pattern.event_type}, {log_pattern.anchor!r} (since {log_pattern.since}, "
        f"until {log_pattern.until or 'today'}): the jars "
        f"print it in {[v for v in VERSIONS if v in printed] or 'no version'}. "
        "Set since and until in detectors/events/vocabulary/ accordingly; a log pattern that flink-dist does not print "
        "at all gets its anchor into ELSEWHERE; one whose arguments are filled in badly, a line in GUESSES.\n"
        + "\n".join(f"  {sorted(m.template.versions, key=_minor)} {m.template.text!r}" for m in matches(log_pattern))
    )


def test_no_other_template_is_read_by_accident() -> None:
    found = {(w.event_type, m.template.text): m for w in vocabulary.PATTERNS for m in matches(w) if m.left}
    new = [f"{event_type}\t{text}" for event_type, text in sorted(found.keys() - reviewed())]
    assert not new, (
        "These templates begin like a log pattern and continue with words that it does not match. Where the template "
        "means "
        f"the same, append its line (with the tab) to {Path(__file__).with_name('reviewed.tsv')}; where it does not, "
        "make the pattern longer:\n" + "\n".join(new)
    )
    gone = reviewed() - found.keys()
    assert not gone, (
        f"No longer matched by any log pattern, or matched to the end; take it out of reviewed.tsv: {sorted(gone)}"
    )


def test_no_template_has_two_meanings() -> None:
    """Which one is taken would depend on the order of the wordings."""
    types_of: dict[tuple[str, str], set[str]] = {}
    for log_pattern in vocabulary.PATTERNS:
        for match in matches(log_pattern):
            types_of.setdefault((match.template.text, match.line), set()).add(log_pattern.event_type)
    double = {text: sorted(found) for (text, _), found in types_of.items() if len(found) > 1}
    assert not double, f"Make one of the patterns of each longer, so that only one reads it: {double}"


def test_a_line_of_the_jars_holds_a_literal_of_the_gate_when_it_means_something() -> None:
    for log_pattern in vocabulary.PATTERNS:
        for match in matches(log_pattern):
            assert any(literal in match.line for literal in vocabulary.PREFILTER), match
