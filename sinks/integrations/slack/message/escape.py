"""Makes text from logs harmless for Slack: no mentions, links, formatting or control characters.

Slack parses `mrkdwn` text: `<!channel>` notifies everyone, `*` and backticks change the format of the following text.
Control characters are written as entities. Formatting characters are replaced by look-alikes, because Slack has no
escape for them.
"""

import re

from sinks.contract.one_line import one_line

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# `*` and `_` are formatting only next to a blank or punctuation, so `my_job_name` is unchanged and can be copied. The
# tilde is always replaced, because the summary of a resolved incident is struck out with tildes.
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
    """`text` as one line of mrkdwn that Slack shows unchanged, at most `limit` characters long."""
    return _entities(_FORMATTING.sub(lambda found: _LOOK_ALIKES[found[0]], one_line(text)), limit)


def code(text: str, limit: int) -> str:
    """`text` as one line inside a code span or block, at most `limit` characters long.

    Only the backtick ends code, so nothing else is replaced and a log line can be copied.
    """
    return _entities(one_line(text).replace("`", _LOOK_ALIKES["`"]), limit)


def plain(text: str, limit: int) -> str:
    """`text` for a plain_text object, which has neither formatting nor mentions."""
    return _entities(one_line(text), limit)


def _entities(text: str, limit: int) -> str:
    """The text with entities for the three control characters, cut at the limit but never inside an entity."""
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
    # An emoji counts as two characters, as in JavaScript and Java, since Slack does not document this.
    return 2 if ord(piece[0]) > _ONE_UNIT else len(piece)
