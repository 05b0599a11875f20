"""Native helpers, such as those of Hadoop, write lines through a pipe, which the JVM prints when it runs.

A helper works while the JVM pauses, so a line that is printed long after it was written shows a pause. A helper may
always lag by one line, which is why a source whose lines are often late proves nothing.
"""

from datetime import datetime

import msgspec

from detectors.events.event import LogEvent
from detectors.flink.facts import HelperLine
from detectors.values.bounded import put_bounded

_MAX_SOURCES = 50
_MIN_LINES = 20
_RARELY = 50
_QUARTER_MS = 900_000


class NativeHelpers(msgspec.Struct, array_like=True):
    """Lines of helpers by source: how many there were, and how many of them were late."""

    lines: dict[str, tuple[int, int]] = {}

    def pause(self, event: LogEvent, fact: HelperLine, least: int) -> int:
        """For how many ms, at least `least`, the JVM paused before it printed a line; 0 if it did not.

        Helper and log share a clock, but perhaps not a time zone.
        """
        try:
            written = datetime.fromisoformat(fact.written + "+00:00").timestamp() * 1000
        except ValueError:
            return 0  # There is no such date.
        lag = round(event.local_time - written) % _QUARTER_MS
        seen, late = self.lines.get(event.source, (0, 0))
        paused = event.local_time >= 0 and least <= lag < _QUARTER_MS - least
        put_bounded(self.lines, event.source, (seen + 1, late + paused), _MAX_SOURCES)
        return lag if paused and seen >= _MIN_LINES and late * _RARELY <= seen else 0
