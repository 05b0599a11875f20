"""The type of a log pattern, and the parts that patterns share.

All patterns come from the log calls in the release jars of Flink 1.4.2 to 2.3.0, from version `since` to `until`.
"""

import re

import msgspec

# As Java prints them. Longer ones would not fit into 64 bits; \d would match the digits of all scripts.
N = r"(?:0|[1-9][0-9]{0,17})"
JOB = r"(?P<job>[0-9a-f]{32})"
ATTEMPT = r"(?P<attempt>[0-9a-f]{32}(?:_[0-9a-f]{32}_\d+_\d+)?)"
TASK = rf"(?P<task>.+?) \((?P<subtask>{N})/(?P<parallelism>{N})\)(?:#\d+)?"
AT = r"(?P<tm>\S+) @ (?P<host>\S+)"

# A character before ?, * or { may be missing.
_BEGINNING = re.compile(r"(?:[\w ,:-]|\\\.)*(?![?*{])")


class LogPattern(msgspec.Struct, frozen=True):
    """One form of a log line with the given event type.

    `pattern` is matched at the start of the message unless `anywhere` is set. `anchor` is a literal that every such
    line contains, with the same characters in JSON, so that other records can be skipped without decoding; by default
    the text with which the pattern begins. `prefilter` is a rarer literal of the same lines, set if the anchor is too
    common. If `throws` is set, the line is followed by the throwable that explains it.
    """

    event_type: str
    pattern: str
    anchor: str = ""
    since: str = "1.4"
    until: str = ""
    anywhere: bool = False
    prefilter: str = ""
    throws: bool = False

    def __post_init__(self) -> None:
        beginning = _BEGINNING.match(self.pattern)
        if not self.anchor and beginning is not None:
            msgspec.structs.force_setattr(self, "anchor", beginning[0].replace("\\", ""))
