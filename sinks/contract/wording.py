"""Times, names and sentences that several receivers show. Times are UTC: Flink's logs mostly are."""

import json
import re
from datetime import UTC, datetime
from typing import Any

from detectors import DETECTORS
from detectors.incident import Severity, Transition
from detectors.values.durations import humanize

SEVERITY_WORDS: dict[Severity, str] = {"critical": "Critical", "warning": "Warning", "info": "Info"}
SEVERITY_MARKS: dict[Severity, str] = {"critical": "🔴", "warning": "🟠", "info": "🔵"}

_NAMES = {"taskmanager": "TaskManager", "jobmanager": "JobManager", "ha": "HA", "gc": "GC", "tm": "TM", "jm": "JM"}
_KINDS = re.compile(rf"\b({'|'.join(detector.kind for detector in DETECTORS)})\b")

_RUNBOOK_OF = re.compile(r"[a-z0-9_]{1,80}")


def kind_words(kind: str) -> str:
    """`taskmanager_lost` as "TaskManager lost"."""
    return _capital(_in_words(kind))


def with_words(sentence: str) -> str:
    """A sentence with words for the kinds in it: "restart_loop recurred" as "Restart loop recurred"."""
    worded = _KINDS.sub(lambda found: _in_words(found[0]), sentence)
    return _capital(worded) if _KINDS.match(sentence) else worded


def _in_words(kind: str) -> str:
    return " ".join(_NAMES.get(word, word) for word in kind.split("_") if word)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def moment(time: int) -> str:
    """Epoch milliseconds as "2026-03-01 14:03:07 UTC"; what no calendar holds as the number itself."""
    try:
        return f"{_utc(time):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{time} ms"


def clock_time(time: int, reference: int) -> str:
    """Epoch milliseconds as "14:03:07", with the date in front when it is not the day of `reference`."""
    try:
        if _utc(time).date() == _utc(reference).date():
            return f"{_utc(time):%H:%M:%S}"
        return f"{_utc(time):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{time} ms"


def silence_words(transition: Transition) -> str:
    """Until when it is silenced, by whom and why, or that it no longer is; empty without a silence. Not escaped."""
    now, before = transition.silence, transition.silenced_before
    if transition.transition == "resolved":
        return ""
    if now is not None:
        return f"Silenced until {moment(now.until)} by {now.author}: {now.comment}"
    if before is not None:
        opened = moment(transition.opened_at or transition.at)
        return f"The silence by {before.author} ended, the incident has been open since {opened}: {before.comment}"
    return ""


def late_words(transition: Transition) -> str:
    """By how much the lines that prove it came late, when they were written and when they were read; empty if they were
    on time. Not escaped.
    """
    late = transition.late
    if late is None:
        return ""
    first, last = (clock_time(time, late.arrived) for time in (late.first, late.last))
    written = first if first == last else f"{first} to {last}"
    lateness = humanize(max(late.arrived - late.last, 0))
    return f"Arrived {lateness} late: written {written}, read {clock_time(late.arrived, late.first)} UTC"


def written(value: Any) -> str:
    """The value of a setting as a person writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def runbook_url(base: str, kind: str) -> str:
    """The address of a kind's runbook: in the place of {kind} where the address has it, else behind it. Empty without
    an address, and for the incident of `flinkwatch sinks test`.

    >>> runbook_url("https://github.com/acme/runbooks/blob/main/{kind}.md", "node_lost")
    'https://github.com/acme/runbooks/blob/main/node_lost.md'
    """
    if not base or kind == "test" or not _RUNBOOK_OF.fullmatch(kind):
        return ""
    return base.replace("{kind}", kind) if "{kind}" in base else f"{base.rstrip('/')}/{kind}"


def _utc(time: int) -> datetime:
    return datetime.fromtimestamp(time / 1000, tz=UTC)
