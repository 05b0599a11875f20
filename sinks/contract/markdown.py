"""Text from logs in Markdown."""

import re

from sinks.contract.one_line import shortened

# An underscore inside a name is no markup.
_MARKUP = re.compile(r"[\\`*{}\[\]<>#|~&!$]|(?<![^\W_])_|_(?![^\W_])")


def escaped(text: str, limit: int) -> str:
    """`text` as one line of at most `limit` characters, without formatting, links, mentions or HTML."""
    return _MARKUP.sub(lambda found: f"\\{found[0]}", shortened(text, limit)).replace("@", "&#64;")
