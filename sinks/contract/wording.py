"""Times and names as a person on call reads them. Times are UTC: Flink's logs mostly are."""

import re
from datetime import UTC, datetime

from detectors import DETECTORS
from detectors.incident import Severity

SEVERITY_WORDS: dict[Severity, str] = {"critical": "Critical", "warning": "Warning", "info": "Info"}
SEVERITY_MARKS: dict[Severity, str] = {"critical": "🔴", "warning": "🟠", "info": "🔵"}

_NAMES = {"taskmanager": "TaskManager", "jobmanager": "JobManager", "ha": "HA", "gc": "GC", "tm": "TM", "jm": "JM"}
_KINDS = re.compile(rf"\b({'|'.join(detector.kind for detector in DETECTORS)})\b")


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


def _utc(time: int) -> datetime:
    return datetime.fromtimestamp(time / 1000, tz=UTC)
