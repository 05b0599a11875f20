"""One file of a replay, and what was read of it so far."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from detectors.events.event import Event, Record, Rejected
from detectors.events.layouts.wrappers import head
from streaming.recordings.log_lines import LogFile


class Arrival(NamedTuple):
    """A record, the stream's clock when it arrives, and the number of its file.

    Without a record only the clock advances: by records that have nothing of interest.
    """

    clock: int
    file: int
    record: Record | None


class InputFile(msgspec.Struct):
    """One file and what was read of it so far; `kind` is recording, log, page, or server for a Prometheus server.

    `walked` is true if the file was found in a folder, not given by name. `first` and `last` are the times of its
    records (epoch ms, -1 if unknown); `late` is true if some of a recording's are much older than those before them.
    """

    path: Path
    kind: str
    walked: bool = False
    log: LogFile | None = None
    first: int = -1
    last: int = -1
    late: bool = False
    records: int = 0
    understood: int = 0
    events: int = 0
    rejected: Counter[str] = msgspec.field(default_factory=Counter)

    @property
    def problem(self) -> str:
        """Why the file cannot be read; empty if it can."""
        if self.log is not None:
            return self.log.problem
        if self.records:
            return ""
        return "no metric of Flink in this time" if self.kind == "server" else "empty"

    def take(self, record: Record, found: list[Event] | Rejected) -> None:
        self.records += 1
        if isinstance(found, Rejected):
            self.rejected[found.reason] += 1
            return
        self.events += len(found)
        # The lines of a recording are checked only until an event shows that they are understood.
        if self.log is None and (found or not self.understood):
            self.understood += bool(found) or _in_layout(record)


def _in_layout(record: Record) -> bool:
    lines = (record.value or b"").decode(errors="replace").splitlines()
    return any(head(line) is not None for line in lines)
