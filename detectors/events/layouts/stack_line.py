"""Reads lines of a Java stack trace: the throwable with its message, its causes, and frames of user code.

A stack may be in the same record as the line that it explains, or each line in a record of its own. Each line is
therefore read separately, and `detectors.flink.stack_traces` joins them per source.
"""

import re

THROWN = "thrown"
FRAME = "frame"

PREFILTER: tuple[str, ...] = ("Exception", "Error", "Caused by: ", r"\tat ", "\tat ", "#011at ")
"""Literals of which every stack line of interest contains at least one. JSON has `\\t` for a tab, rsyslog `#011`."""

_THROWN = re.compile(
    r'(?:Exception in thread ".{0,200}?" )?(?P<caused>Caused by: )?'
    r"(?P<class>(?:[a-zA-Z_$][\w$]*\.)+[A-Z_$][\w$]*|[A-Z][\w$]*(?:Exception|Error))"
    r"(?:: (?P<message>.*)|\s*)$"
)
_NAMED = re.compile(r"(?:Exception|Error|Throwable|Failure|Timeout)\b")
_AT = re.compile(r"\s+at (?:[\w.@\-]+/{1,2})?(?P<frame>[\w.$<>]+\([^)]{0,200}\))")
_NOT_OWN = ("java.", "javax.", "jdk.", "sun.", "com.sun.", "scala.", "akka.", "org.apache.", "io.netty.", "kotlin.")


def read(line: str) -> tuple[str, dict[str, str]] | None:
    """(THROWN, class, message and whether it is a cause) or (FRAME, frame) of one line of a stack, else None.

    Frames in packages of Java and Apache are skipped, because only the position in user code helps.

    >>> read("Caused by: java.lang.ArithmeticException: / by zero")
    ('thrown', {'class': 'java.lang.ArithmeticException', 'message': '/ by zero', 'caused': 'yes'})
    >>> read("\\tat com.example.Parse.map(Parse.java:28) ~[job.jar:?]")
    ('frame', {'frame': 'com.example.Parse.map(Parse.java:28)'})
    """
    if line[:1].isspace():
        at = _AT.match(line)
        return None if at is None or at["frame"].startswith(_NOT_OWN) else (FRAME, {"frame": at["frame"]})
    found = _THROWN.match(line)
    if found is None or not _NAMED.search(found["class"]):
        return None
    fields = {"class": found["class"], "message": found["message"] or ""}
    if found["caused"]:
        fields["caused"] = "yes"
    return THROWN, fields
