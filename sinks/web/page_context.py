"""What a page of an incident shows in addition to its transitions. Each part may be missing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

import msgspec

from detectors.incident import Evidence, Transition
from sinks.contract.feedback import NO_MARKS, Marks

_MOST_EARLIER = 20
_NAME = re.compile(r"[\w.~-]{1,200}")


class EarlierIncident(msgspec.Struct, frozen=True):
    """An incident with the same cause on the same job: its ID, its summary, and its times (epoch ms)."""

    incident: str
    summary: str
    opened_at: int
    ended_at: int | None = None


class SentNotification(msgspec.Struct, frozen=True):
    """What a receiver got: `seq` is the transition, `at` the time (epoch ms), `state` that of the notification log,
    `reason` why it could not be delivered.
    """

    receiver: str
    at: int
    seq: int
    state: str
    reason: str = ""


class ThresholdInForce(msgspec.Struct, frozen=True):
    """A setting of a detector: its key, its value and its default as written in the configuration, what it means, and
    where the value comes from, such as `overrides[2]`.
    """

    key: str
    value: str
    default: str
    meaning: str = ""
    origin: str = ""


class PageContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a page shows in addition to transitions.

    marks             what people have answered to its message
    files             topics of evidence that are names of log files, in which an offset is the number of a line
    incident_address  address of another incident's page with {incident} in it; empty: there is none
    flink_ui_url      as in the settings; empty: no link to Flink's web UI
    runbook_base_url  as in the settings of Slack; empty: no links to runbooks
    navigation        links at the top of the page: label and address
    notice            why the page may be outdated; empty if it is not
    """

    earlier: Sequence[EarlierIncident] = ()
    marks: Marks = NO_MARKS
    notifications: Sequence[SentNotification] = ()
    thresholds: Sequence[ThresholdInForce] = ()
    files: frozenset[str] = frozenset()
    incident_address: str = ""
    runbook_base_url: str = ""
    flink_ui_url: Mapping[str, str] = {}
    navigation: Sequence[tuple[str, str]] = ()
    notice: str = ""

    def address_of(self, incident: str) -> str:
        """The address of an incident's page; empty without one."""
        if not self.incident_address or not _NAME.fullmatch(incident):
            return ""
        return self.incident_address.replace("{incident}", quote(incident, safe=""))

    def place_of(self, evidence: Evidence) -> str:
        """Where a record can be read again: `topic/partition@offset`, or `file:line`."""
        if evidence.topic in self.files:
            return f"{evidence.topic}:{evidence.offset}"
        return f"{evidence.topic}/{evidence.partition}@{evidence.offset}"


NO_CONTEXT = PageContext()


def earlier_incidents(others: Mapping[str, Sequence[Transition]], transition: Transition) -> list[EarlierIncident]:
    """The incidents like this one that opened before it, newest first: the same cause on the same job, or in the same
    cluster if no job is known. `others` are the transitions of incidents by ID.
    """
    alike = [found[-1] for found in others.values() if found and _before(found[-1], transition)]
    newest = sorted(alike, key=_opened, reverse=True)[:_MOST_EARLIER]
    return [EarlierIncident(t.incident, t.summary, _opened(t), _ended(t)) for t in newest]


def _before(other: Transition, transition: Transition) -> bool:
    return (
        other.incident != transition.incident
        and not other.part_of
        and _place(other) == _place(transition)
        and _opened(other) <= _opened(transition)
    )


def _place(transition: Transition) -> tuple[str, str, str]:
    return transition.cluster, transition.cause, transition.job_name or transition.job_id


def _opened(transition: Transition) -> int:
    return transition.opened_at or transition.at


def _ended(transition: Transition) -> int | None:
    return (transition.ended_at or transition.at) if transition.transition == "resolved" else None


def by_id(transitions: Iterable[Transition]) -> dict[str, list[Transition]]:
    """The transitions of each incident, in order of opening."""
    found: dict[str, list[Transition]] = {}
    for transition in transitions:
        found.setdefault(transition.incident, []).append(transition)
    return found
