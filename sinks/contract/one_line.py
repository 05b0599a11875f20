"""Text from logs as one line without anything that a reader cannot see."""

import re

# Control characters, line and paragraph separators, marks without width, characters that change the direction of
# writing, and lone surrogates.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]+"
)


def one_line(text: str) -> str:
    """`text` with a blank in the place of each run of blanks, line breaks and invisible characters."""
    return " ".join(_CONTROL.sub(" ", text).split())


def shortened(text: str, limit: int) -> str:
    """`text` as one line of at most `limit` characters; an ellipsis shows that its end is missing."""
    # Most of a text of 100 kB is not looked at.
    line = one_line(text[: 4 * limit])
    if len(line) <= limit and len(text) <= 4 * limit:
        return line
    return line[: limit - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
