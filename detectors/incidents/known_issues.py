"""Matches incidents with known issues of Flink and its connectors, the entries of conf/known_issues.yaml.

That file, and the files of a site with entries of its own, are read elsewhere. An entry matches by the kind of a
finding and by its signature (texts, failures, metrics). A known Flink version that is not affected rules the entry out.
An unknown version does not, and the message says so.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from detectors.flink.stack_traces import StackTraces
from detectors.incident import Finding, KnownIssue
from detectors.incidents.cause_graph import KINDS
from detectors.values.versions import version_numbers

_NEAR_MS = 600_000
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
_FIRST = "0.0"
_CERTAINTY = ("sure", "likely", "possible")


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"{text} is not a kind of finding; allowed: {', '.join(sorted(KINDS))}")
    return text


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise ValueError('is not a version: write two or three numbers, like "1.17" or "1.17.2"')
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]
Kind = Annotated[str, AfterValidator(_kind)]
Version = Annotated[str, AfterValidator(_version)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Signature(_Entry):
    """What an incident must show: every condition that is given. Patterns match anywhere and ignore case."""

    kinds: tuple[Kind, ...] = Field(min_length=1)
    alongside: tuple[Kind, ...] = ()
    text: Pattern = ""
    failure: Pattern = ""
    place: Pattern = ""
    series: Pattern = ""


class Affected(_Entry):
    """Versions of Flink from `since` (included) to `before` (excluded).

    Without `before` all later versions. Without `since` all older ones, of which the first affected one is not known.
    """

    since: Version = _FIRST
    before: Version = "999.0"

    def includes(self, number: tuple[int, ...]) -> bool:
        """Whether a version is in the range, given as its numbers."""
        return version_numbers(self.since) <= number < version_numbers(self.before)


class IssueEntry(_Entry):
    """One known issue. The comment at the top of conf/known_issues.yaml explains every key."""

    id: str = Field(pattern=r"^[A-Za-z][\w/#.\- ]{2,60}$")
    title: str = Field(min_length=10, max_length=200)
    signature: tuple[Signature, ...] = Field(min_length=1)
    affected: tuple[Affected, ...] = ()
    needs_version: bool = False
    settings: dict[str, Pattern] = {}
    connector: str = Field("", max_length=200)
    certainty: Literal["sure", "likely", "possible"] = "likely"
    fixed_in: str = Field(min_length=3, max_length=200)
    workaround: str = Field(min_length=10, max_length=400)
    link: str = Field(pattern=r"^https://\S+$")

    @field_validator("affected")
    @classmethod
    def _not_empty(cls, affected: tuple[Affected, ...]) -> tuple[Affected, ...]:
        for one in affected:
            if version_numbers(one.since) >= version_numbers(one.before):
                raise ValueError(f"since {one.since} must be lower than before {one.before}")
        return affected


class KnownIssues(_Entry):
    """The entries of a file, the most certain ones first: in this order they are tried."""

    known_issues: tuple[IssueEntry, ...]

    @field_validator("known_issues")
    @classmethod
    def _unique_and_sorted(cls, issues: tuple[IssueEntry, ...]) -> tuple[IssueEntry, ...]:
        ids = [issue.id for issue in issues]
        if twice := {i for i in ids if ids.count(i) > 1}:
            raise ValueError(f"ids must be unique: {', '.join(sorted(twice))}")
        return tuple(sorted(issues, key=lambda issue: _CERTAINTY.index(issue.certainty)))


class IssueCatalogue(NamedTuple):
    """The entries in the order in which they are tried, and their hash."""

    entries: tuple[IssueEntry, ...] = ()
    hash: str = ""


NO_ISSUES = IssueCatalogue()


def find(
    issues: IssueCatalogue, findings: list[Finding], version: str, throwables: StackTraces, present: str = ""
) -> KnownIssue | None:
    """The entry that matches the findings. `present`, the entry found before, stays as long as the version allows."""
    stays = [i for i in issues.entries if i.id == present and _applies(i, version) is not None]
    for issue in stays or issues.entries:
        applies = _applies(issue, version)
        if applies is not None and (stays or any(_shows(s, findings, throwables) for s in issue.signature)):
            return KnownIssue(issue.id, issue.title, issue.fixed_in, issue.workaround, issue.link, applies)
    return None


def possible(
    issues: IssueCatalogue, version: str, settings: Mapping[str, str], all_older: bool = False
) -> list[KnownIssue]:
    """The entries that a cluster of this Flink version may meet, though nothing has happened yet.

    Only entries with affected versions, and none if the version is unknown. With `all_older` also those of which the
    first affected version is not known, if the fix came later. Settings that the cluster has printed may rule out one.
    """
    number = version_numbers(version)
    found = []
    for issue in issues.entries:
        ranges = [a for a in issue.affected if all_older or a.since != _FIRST]
        if number and any(one.includes(number) for one in ranges) and _set_so(issue, settings):
            needs = f"with {issue.connector}" if issue.connector else f"Flink {version}"
            found.append(KnownIssue(issue.id, issue.title, issue.fixed_in, issue.workaround, issue.link, needs))
    return found


def _set_so(issue: IssueEntry, settings: Mapping[str, str]) -> bool:
    """Whether no known setting rules it out. Later versions of Flink call `state.backend` `state.backend.type`."""
    known = ((settings.get(f"{key}.type") or settings.get(key, ""), pattern) for key, pattern in issue.settings.items())
    return all(not value or re.search(pattern, value, re.IGNORECASE) for value, pattern in known)


def _applies(issue: IssueEntry, version: str) -> str | None:
    """Whether the Flink version is affected, as text for the message; None if it is not."""
    connector = f"; affected connector: {issue.connector}" if issue.connector else ""
    doubt = "" if issue.certainty == "sure" else f"; the match is {issue.certainty}"
    if not issue.affected:
        return f"any version of Flink{doubt}{connector}"
    number = version_numbers(version)
    if not number:
        return None if issue.needs_version else f"may apply: the version of Flink is unknown{doubt}{connector}"
    found = next((a for a in issue.affected if a.includes(number)), None)
    if found is None:
        return None
    how = f"is older than the fix in {found.before}" if found.since == _FIRST else "is affected"
    return f"Flink {version} {how}{doubt}{connector}"


def _shows(signature: Signature, findings: list[Finding], throwables: StackTraces) -> bool:
    return {f.kind for f in findings}.issuperset(signature.alongside) and any(
        _is(signature, f, throwables) for f in findings if f.kind in signature.kinds
    )


def _is(signature: Signature, finding: Finding, throwables: StackTraces) -> bool:
    series = [finding.series.name] if finding.series is not None else []
    places = [v for k, v in finding.entity.items() if k in ("task", "operator", "topic")]
    own = [finding.summary, *(e.text for e in finding.evidence)]
    return (
        _any(signature.series, series)
        and _any(signature.place, places)
        and _any(signature.failure, _failures(finding, throwables))
        and _any(signature.text, chain(own, _failures(finding, throwables)))
    )


def _any(pattern: str, texts: Iterable[str]) -> bool:
    return not pattern or any(re.search(pattern, text, re.IGNORECASE) for text in texts)


def _failures(finding: Finding, throwables: StackTraces) -> Iterator[str]:
    """Class, message and frame of the failures that the cluster's processes logged near the finding."""
    for stack in throwables.stacks.values():
        if finding.since - _NEAR_MS <= stack.timestamp <= finding.at + _NEAR_MS:
            fields = stack.fields
            yield f"{fields.get('class', '')}: {fields.get('message', '')} {fields.get('frame', '')} {stack.first}"
