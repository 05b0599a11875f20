"""Sources whose records come regularly, and how often: scrapes of a process, checkpoint lines of a job's log."""

from collections.abc import Iterable

import msgspec

from detectors.events.event import Event, Sample
from detectors.events.names import filtered
from detectors.flink.calm import ENOUGH_SAMPLES
from detectors.incident import Evidence
from detectors.values.bounded import put_bounded, to_int

_MAX_SOURCES = 400
_MAX_JOBMANAGERS = 20
_FRESH_MS = 180_000
_GAPS = 8
_SAME_SCRAPE_MS = 500
_LAST = "the last record before data stopped"


class RegularSource(msgspec.Struct, array_like=True):
    """One source: the clock at its last record, event time and address of the last scrape, and the last gaps in ms.

    `tm` and `host` are those of a process. `checked` is the clock at which a gap was last judged. `count` is a job's
    counter of completed checkpoints at its last line, `counted` the counter now (-1: unknown). `busy`: a checkpoint is
    in progress, after whose end the next line comes. `again` counts the scrapes since data was missing, up to three.
    """

    last: int
    time: int
    record: tuple[str, int, int]
    tm: str = ""
    host: str = ""
    gaps: list[int] = []
    checked: int = 0
    count: int = -1
    counted: int = -1
    busy: bool = False
    again: int = 0

    def receive(self, event: Event, time: int, clock: int) -> None:
        """Take in a record. Its time separates a new scrape from another part of the last one or a late one."""
        if time - self.time >= _SAME_SCRAPE_MS:
            self.gaps = [*self.gaps, time - self.time][-_GAPS:]
            self.time, self.record = time, (event.topic, event.partition, event.offset)
            self.again = min(self.again + 1, ENOUGH_SAMPLES)
        self.last = max(self.last, clock)

    @property
    def back(self) -> bool:
        """Whether its data arrives again: one scrape between two gaps does not show that."""
        return self.again >= ENOUGH_SAMPLES

    def missed(self) -> int:
        """The number of checkpoints that have completed without a line."""
        return self.counted - self.count if self.count >= 0 else 0

    def usual(self) -> int:
        """The usual gap between two records in ms."""
        return sorted(self.gaps)[len(self.gaps) // 2]

    def fresh(self, clock: int, least: int) -> bool:
        """Whether its data still comes: the last gap is not clearly longer than usual, or shorter than `least` ms."""
        return clock - self.last <= max(least, 2 * max(self.gaps, default=0))

    def began(self) -> int:
        """Event time of the first record; 0 if it is older than the kept gaps."""
        return self.time - sum(self.gaps) if len(self.gaps) < _GAPS else 0

    def missing_at(self, history: int, factor: float, least: int) -> int | None:
        """Clock at which its data counts as missing, again `least` ms after each check; None before `history` gaps."""
        if len(self.gaps) < history:
            return None
        limit = max(least, round(factor * max(self.gaps)))
        return max(self.last + limit, self.checked + least if self.checked else 0)

    def evidence(self) -> Evidence:
        """The last record."""
        return Evidence(*self.record, self.time, _LAST)


class ScrapedProcesses(msgspec.Struct, array_like=True):
    """Processes by "tm|" and the id or "jm|" and the host, and the count of registered TaskManagers with its clock."""

    by_key: dict[str, RegularSource] = {}
    registered: tuple[int, int] = (-1, 0)

    def measure(self, samples: Iterable[Sample], event: Event, time: int, clock: int) -> tuple[list[str], list[str]]:
        """Take in the samples of one record. Returns the keys of their processes, and of those dropped for them."""
        places: dict[str, tuple[str, str]] = {}
        dropped: list[str] = []
        for sample in samples:
            tm, host = sample.labels.get("tm_id", ""), sample.labels.get("host", event.host)
            places.setdefault(f"tm|{filtered(tm)}" if tm else f"jm|{host}", (tm, host))
            if sample.name == "registered_task_managers" and clock >= self.registered[1]:
                self.registered = (max(to_int(sample.value), -1), clock)
        for key, place in places.items():
            known = self.by_key.get(key)
            if known is not None:
                known.receive(event, time, clock)
                known.checked = 0
            else:
                dropped += _learn(self.by_key, key, event, time, clock, *place)
        return list(places), dropped


class RegisteredTaskManagers(msgspec.Struct, array_like=True):
    """The number of TaskManagers registered at each JobManager, by its host, with the event time of that sample."""

    counts: dict[str, tuple[float, int]] = {}

    def measure(self, samples: Iterable[Sample], host: str, time: int) -> None:
        """Take in counts. `host` is that of a sample without one."""
        for sample in samples:
            place = sample.labels.get("host", host)
            if time >= self.counts.get(place, (0, time))[1]:
                put_bounded(self.counts, place, (sample.value, time), _MAX_JOBMANAGERS)

    def none(self, time: int) -> bool:
        """Whether no JobManager has a TaskManager. A standby JobManager never has one."""
        fresh = [count for count, at in self.counts.values() if time - at <= _FRESH_MS]
        return bool(fresh) and max(fresh) <= 0


class JobLogs(msgspec.Struct, array_like=True):
    """The logs of jobs, by "log|" and the job's id. Only triggers are regular; each has a second line soon after it."""

    by_key: dict[str, RegularSource] = {}

    def line(self, key: str, triggered: bool, event: Event, time: int, clock: int) -> list[str]:
        """Take in a checkpoint line. Returns the key of a log that was dropped for it."""
        dropped = _learn(self.by_key, key, event, time, clock, "", event.host) if key not in self.by_key else []
        known = self.by_key[key]
        if triggered:
            known.receive(event, time, clock)
        known.last = max(known.last, clock)
        known.count, known.checked, known.busy = known.counted, 0, triggered
        return dropped

    def measure(self, samples: Iterable[Sample]) -> None:
        """Take in counters of completed checkpoints."""
        for sample in samples:
            if sample.name != "completed_checkpoints":
                continue
            known = self.by_key.get(f"log|{sample.labels.get('job_id', '')}")
            if known is not None:
                known.counted = max(to_int(sample.value), -1)
                if known.count < 0 or known.counted < known.count:
                    known.count = known.counted


def _learn(
    sources: dict[str, RegularSource], key: str, event: Event, time: int, clock: int, tm: str, host: str
) -> list[str]:
    """Add a source. Returns the key of one that was dropped for it."""
    source = RegularSource(clock, time, (event.topic, event.partition, event.offset), tm, host)
    dropped = put_bounded(sources, key, source, _MAX_SOURCES)
    return [] if dropped is None else [dropped[0]]
