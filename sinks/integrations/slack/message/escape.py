"""Text from logs made harmless for Slack: no mention, no link, no formatting, no character that JSON inflates.

Slack parses `mrkdwn` text: `<!channel>` wakes everybody, `*` and backticks change the look of all that follows.
Entities handle the first, look-alikes the second; Slack knows no escape for its formatting characters.
"""

import re

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")
# A formatting character counts only next to a blank or punctuation: `my_job_name` stays as it is and can be copied.
# But not the tilde: what has ended is struck out as a whole.
_FORMATTING = re.compile(r"(?<![^\W_])[*_]|[*_](?![^\W_])|[~`]")
_LOOK_ALIKES = {
    "*": "\N{ASTERISK OPERATOR}",
    "_": "\N{FULLWIDTH LOW LINE}",
    "~": "\N{TILDE OPERATOR}",
    "`": "\N{MODIFIER LETTER GRAVE ACCENT}",
}
_ONE_UNIT = 0xFFFF
_CUT = "\N{HORIZONTAL ELLIPSIS}"


def prose(text: str, limit: int) -> str:
    """`text` as one line of mrkdwn that Slack shows as it is, at most `limit` characters long."""
    return _entities(_FORMATTING.sub(lambda found: _LOOK_ALIKES[found[0]], _one_line(text)), limit)


def code(text: str, limit: int) -> str:
    """`text` as one line for the inside of a code span or block, at most `limit` characters long.

    Only the backtick ends code, so nothing else is replaced: a log line can be copied.
    """
    return _entities(_one_line(text).replace("`", _LOOK_ALIKES["`"]), limit)


def plain(text: str, limit: int) -> str:
    """`text` for a plain_text object, which has neither formatting nor mentions."""
    return _entities(_one_line(text), limit)


def _one_line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _entities(text: str, limit: int) -> str:
    """Entities for the three control characters, cut so that no entity is halved."""
    escaped: list[str] = []
    room = limit
    for character in text:
        piece = _ENTITIES.get(character, character)
        room -= _width(piece)
        if room < 0:
            return _cut(escaped, limit)
        escaped.append(piece)
    return "".join(escaped)


def _cut(escaped: list[str], limit: int) -> str:
    used = sum(map(_width, escaped))
    while escaped and used + len(_CUT) > limit:
        used -= _width(escaped.pop())
    return "".join(escaped).rstrip() + _CUT if limit >= len(_CUT) else ""


def _width(piece: str) -> int:
    # An emoji counts twice, as in JavaScript and Java: nobody says how Slack counts.
    return 2 if ord(piece[0]) > _ONE_UNIT else len(piece)
