"""What a wording is, and the pieces that wordings share.

Sources of all wordings: the log calls in the Flink release jars 1.4.2 to 2.3.0; `since` and `until` are the versions
they were read in.
"""

import msgspec

# Bounded: a longer number is no Flink's, and would not fit into 64 bits.
N = r"\d{1,18}"
JOB = r"(?P<job>[0-9a-f]{32})"
ATTEMPT = r"(?P<attempt>[0-9a-f]{32}(?:_[0-9a-f]{32}_\d+_\d+)?)"
TASK = rf"(?P<task>.+?) \((?P<subtask>{N})/(?P<parallelism>{N})\)(?:#\d+)?"
AT = r"(?P<tm>\S+) @ (?P<host>\S+)"


class LogPattern(msgspec.Struct, frozen=True):
    """One wording of one meaning.

    `pattern` is matched at the start of the message unless `anywhere`. `anchor` is a literal piece that stands in every
    line of the wording, and in its JSON-escaped form too (letters, digits, blanks and dots only), so that a record can
    be passed over without being decoded; `gate` is a rarer literal of the same lines, where the anchor is too common.
    `throws`: the line is followed by the throwable that explains it.
    """

    event_type: str
    anchor: str
    pattern: str
    since: str = "1.4"
    until: str = ""
    anywhere: bool = False
    gate: str = ""
    throws: bool = False
