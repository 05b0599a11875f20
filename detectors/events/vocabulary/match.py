"""What a log line means, whatever version of Flink wrote it: lines held against the wordings of `words`.

Loggers and levels are not part of it: both changed too often.
"""

import re

from detectors.events.layouts import stack_line
from detectors.events.vocabulary import WORDINGS
from detectors.events.vocabulary.pattern import LogPattern

MEANINGS: frozenset[str] = frozenset(w.event_type for w in WORDINGS)

THROWS: frozenset[str] = frozenset(w.event_type for w in WORDINGS if w.throws)
"""Meanings whose line is followed by the throwable that explains it."""

GATE: tuple[str, ...] = (*dict.fromkeys(w.gate or w.anchor for w in WORDINGS), *stack_line.GATE)
"""The literals of which every record that matters holds at least one: search them before decoding anything."""

_AT_START = [(w, re.compile(w.pattern)) for w in WORDINGS if not w.anywhere]
_ANYWHERE = [(w, re.compile(w.pattern)) for w in WORDINGS if w.anywhere]


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
    """The meaning of one physical line's message and its named fields, or None when it says nothing that matters.

    >>> match("Checkpoint 6 of job e04f0bd47405a7a169914793d27ced1f expired before completing.")
    ('checkpoint_expired', {'checkpoint': '6', 'job': 'e04f0bd47405a7a169914793d27ced1f'})
    """
    for wording, pattern in _BY_FIRST_WORD.get(message[: message.find(" ")], _NO_FIRST_WORD):
        # Looking for the anchor first costs a tenth of a pattern that fails.
        if wording.anchor in message and (found := pattern.match(message)):
            return wording.event_type, _fields(found)
    return match_anywhere(message)


def match_anywhere(text: str) -> tuple[str, dict[str, str]] | None:
    """As `match`, for a line without a head: the stack of a throwable, or a continuation."""
    for wording, pattern in _ANYWHERE:
        if wording.anchor in text:
            found = pattern.search(text)
            if found:
                return wording.event_type, _fields(found)
    return None


def _fields(found: re.Match[str]) -> dict[str, str]:
    """The groups that took part; most often all of them do."""
    fields = found.groupdict()
    return {k: v for k, v in fields.items() if v is not None} if None in fields.values() else fields
