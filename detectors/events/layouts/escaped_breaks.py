"""Splits texts in which a log shipper has written line breaks as escapes.

rsyslog joins the lines of an event and writes each line break between them as `\\n` (escapeLF of imfile, its default)
or `#012`, and some of its inputs write a tab as `#011`. A text is split only where a stack trace follows, because a
message, a path or a JSON document may contain the same characters.
"""

import re

_BREAK = r"(?:\\r|#015)?(?:\\n|#012)"
_TAB = r"(?:\\t|#011)"
_FRAME = r"at [\w.@-]{0,100}/{0,2}[\w.$<>/-]{1,500}\("
_CAUSE = r"(?:Caused by|Suppressed): [A-Za-z_]"
_REST = r"\.\.\. \d+ (?:more|common frames)"
# A blank or a tab is required before "at"; the last character of an escaped tab is t or 1.
_SURE = rf"{_BREAK}(?=(?:\s|{_TAB}){{0,8}}(?:(?<=[\st1]){_FRAME}|{_CAUSE}|{_REST}))"
_THROWN = r"[a-z_][\w$]*\.[\w$.]{1,300}?(?:Exception|Error|Throwable|Failure|Timeout)"
# The name of a class may also be the end of a path, as in C:\new.org.MyException. A path therefore stays as it is.
_ESCAPED = re.compile(
    rf"(?:(?P<sure>{_SURE})|(?P<thrown>{_BREAK}(?={_THROWN}(?::\s|\s*$|{_BREAK}))))(?P<tabs>{_TAB}*)"
    rf"|\b[A-Za-z]:\\(?:(?!{_SURE})\S)*"
)


def lines(text: str) -> list[str]:
    """The lines of a text, including those of a joined stack trace.

    >>> lines(r"Job failed.\\njava.io.IOException: C:\\new\\n#011at a.B.c(B.java:1)")
    ['Job failed.', 'java.io.IOException: C:\\\\new', '\\tat a.B.c(B.java:1)']
    """
    found = text.splitlines()
    if "\\n" not in text and "#012" not in text:
        return found
    return [part for line in found for part in _parts(line)]


def _parts(line: str) -> list[str]:
    start = line.lstrip()[:1]
    if start != "{":
        return _ESCAPED.sub(_split, line).split("\n")
    # In a JSON document the escapes are part of its texts. A stack may follow the document.
    if line.rstrip()[-1:] == "}":
        return [line]
    end = next((m.start() for m in _ESCAPED.finditer(line) if line[m.start() - 1] == "}"), len(line))
    return [line[:end], *_ESCAPED.sub(_split, line[end:]).split("\n")[1:]]


def _split(found: re.Match[str]) -> str:
    if found["sure"] is None and found["thrown"] is None:
        return found[0]
    return "\n\t" if found["tabs"] else "\n"
