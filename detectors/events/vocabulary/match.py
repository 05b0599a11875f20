"""Finds the event type of a log line by matching it against the patterns of `vocabulary`, for all versions of Flink.

Loggers and levels are not compared, because both have changed often.
"""

import re

from detectors.events.layouts import stack_line
from detectors.events.vocabulary import PATTERNS, kubernetes
from detectors.events.vocabulary.pattern import LogPattern

EVENT_TYPES: frozenset[str] = frozenset(w.event_type for w in PATTERNS)

THROWS: frozenset[str] = frozenset(w.event_type for w in PATTERNS if w.throws)
"""Event types whose line is followed by the throwable that explains it."""

PREFILTER: tuple[str, ...] = (
    *dict.fromkeys(w.prefilter or w.anchor for w in PATTERNS),
    *kubernetes.PREFILTER,
    *stack_line.PREFILTER,
)
"""Literals of which every record of interest contains at least one, to search for before decoding."""

_AT_START = [(w, re.compile(w.pattern)) for w in PATTERNS if not w.anywhere]
_ANYWHERE = [(w, re.compile(w.pattern)) for w in PATTERNS if w.anywhere]


def _first_word(pattern: str) -> str:
    word = re.match(r"[A-Za-z]+(?= )", pattern)
    return word[0] if word else ""


_Candidates = tuple[tuple[LogPattern, re.Pattern[str]], ...]

_NO_FIRST_WORD: _Candidates = tuple(e for e in _AT_START if not _first_word(e[0].pattern))
_BY_FIRST_WORD: dict[str, _Candidates] = {
    word: (*(e for e in _AT_START if _first_word(e[0].pattern) == word), *_NO_FIRST_WORD)
    for word in {_first_word(w.pattern) for w, _ in _AT_START} - {""}
}


def match(message: str) -> tuple[str, dict[str, str]] | None:
    """The event type of one physical line's message and its named fields, or None if it is of no interest.

    >>> match("Checkpoint 6 of job e04f0bd47405a7a169914793d27ced1f expired before completing.")
    ('checkpoint_expired', {'checkpoint': '6', 'job': 'e04f0bd47405a7a169914793d27ced1f'})
    """
    for log_pattern, pattern in _BY_FIRST_WORD.get(message[: message.find(" ")], _NO_FIRST_WORD):
        # Searching for the anchor costs a tenth of a pattern that does not match.
        if log_pattern.anchor in message and (found := pattern.match(message)):
            return log_pattern.event_type, _fields(found)
    return match_anywhere(message)


def match_anywhere(text: str) -> tuple[str, dict[str, str]] | None:
    """Like `match`, for a line without a head: a stack line or a continuation."""
    for log_pattern, pattern in _ANYWHERE:
        if log_pattern.anchor in text:
            found = pattern.search(text)
            if found:
                return log_pattern.event_type, _fields(found)
    return None


def _fields(found: re.Match[str]) -> dict[str, str]:
    """The groups that matched; usually all of them."""
    fields = found.groupdict()
    return {k: v for k, v in fields.items() if v is not None} if None in fields.values() else fields
