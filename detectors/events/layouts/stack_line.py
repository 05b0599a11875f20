"""Lines of a Java stack trace: the throwable with its message, its causes, and the first frame of the user's own code.

A stack may come as one record with the line it explains or as one record a line, so each line is read by itself;
`detectors.flink.stack_traces` joins them again, per source.
"""

import re

THROWN = "thrown"
FRAME = "frame"

GATE: tuple[str, ...] = ("Exception", "Error", "Caused by: ", r"\tat ", "\tat ")
"""Of which every line of a stack that is read holds at least one; a tab is two characters inside JSON."""

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

    Frames of Java's and Apache's packages are none: what helps is where the user's code stands.

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
