"""Kafka readers and what they commit: how many checkpoints have completed since a reader's commits last moved.

Counters of readers and of the JobManager come in different scrapes, of different age. A reader's flat time begins with
a sample of it, and the first count of completed checkpoints taken after that is where counting starts: what a stale
count would add is never added. It ends with a sample of the reader again, against a count that is older.
"""

import re

import msgspec

from detectors.bounded import put
from detectors.events.event import Sample

_MAX_READERS = 400
_MAX_JOBS = 200
_MAX_TMS = 400
_GAUGES_FOR_MS = 900_000
_FIXED = (1, 18)


def affected(version: str) -> bool:
    """Whether a job of this Flink version may run a connector with FLINK-33231; unknown is yes.

    1.17.2 is fixed itself, but its job may bring a connector of its own.

    >>> affected("1.17.1"), affected("1.18.0"), affected("")
    (True, False, True)
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is None or (int(found[1]), int(found[2])) < _FIXED


class Reader(msgspec.Struct, array_like=True):
    """One reader: its counters, since when both stand still (event time), the job's count then (`base`, -1: none yet).

    `flat` checkpoints have completed since, seen at `seen`. `owned` and `moved` are when an offset of its partitions
    was last seen, and last seen to be 0 or more; `said`: it was found to leak, and nothing has shown otherwise.
    """

    job: str
    tm: str
    operator: str
    since: int
    succeeded: float = -1.0
    failed: float = -1.0
    seen: int = 0
    base: float = -1.0
    flat: int = 0
    owned: int = -1
    moved: int = -1
    topic: str = ""
    said: bool = False

    def restart(self, time: int, base: float = -1.0) -> None:
        """Its flat time begins anew."""
        self.since, self.base, self.flat = time, base, 0


class Count(msgspec.Struct, array_like=True):
    """Completed checkpoints of a job: the last two counts with their times, from the gauge or else from lines;
    `name` is the job's in metrics.
    """

    time: int = -1
    value: float = 0.0
    time_before: int = -1
    value_before: float = 0.0
    gauge: int = -(1 << 62)
    line: int = -1
    restarts: float = -1.0
    name: str = ""

    def at(self, time: int) -> float | None:
        """The count known at `time`."""
        if 0 <= self.time <= time:
            return self.value
        return self.value_before if 0 <= self.time_before <= time else None


class Commits(msgspec.Struct, array_like=True):
    """All readers of a cluster, by job, operator and subtask; `off` are the TaskManagers that do not commit."""

    readers: dict[str, Reader] = {}
    counts: dict[str, Count] = {}
    off: dict[str, int] = {}
    touched: list[str] = []
    cures: dict[str, str] = {}

    def sampled(self, sample: Sample, time: int) -> None:
        """Take in a counter or an offset of a reader."""
        labels = sample.labels
        job, tm = labels.get("job_id", ""), labels.get("tm_id", "")
        operator = labels.get("operator_name", "")
        key = f"{job}|{labels.get('operator_id') or operator}|{labels.get('subtask_index', '')}"
        reader = self.readers.get(key)
        if reader is None or (reader.tm != tm and time > reader.seen):
            reader = Reader(job, tm, operator, time, said=reader is not None and reader.said)
            put(self.readers, key, reader, _MAX_READERS)
            self._count(job).name = labels.get("job_name", "")
        if reader.tm != tm:
            return
        match sample.name:
            case "commits_succeeded":
                self._succeeded(reader, sample.value, time)
            case "commits_failed":
                if reader.failed not in (-1.0, sample.value) and time > reader.since:
                    reader.restart(time)
                reader.failed = sample.value
            case _:
                reader.owned, reader.topic = max(reader.owned, time), labels.get("topic", reader.topic)
                if sample.value >= 0:
                    reader.moved = max(reader.moved, time)
                    self._cure(reader, f"a reader of {reader.topic} has an offset again")

    def completed(self, job: str, value: float, time: int) -> None:
        """Take in the job's counter of completed checkpoints."""
        count = self._count(job)
        count.gauge = max(count.gauge, time)
        self._counted(job, count, value, time)

    def completed_line(self, job: str, number: int, time: int) -> None:
        """Take in a completed checkpoint told by a line; lines count where there is no counter."""
        count = self._count(job)
        if number > count.line:
            count.line = number
            if time - count.gauge > _GAUGES_FOR_MS:
                self._counted(job, count, count.value + 1, max(time, count.time + 1))

    def restarted(self, job: str, value: float, time: int) -> None:
        """Take in the job's counter of restarts: its readers are new ones."""
        count = self._count(job)
        if count.restarts not in (-1.0, value):
            self._again(job, time)
        count.restarts = value

    def refused(self, tm: str, for_ever: bool, time: int) -> None:
        """A TaskManager does not commit, or could not."""
        if for_ever:
            put(self.off, tm, time, _MAX_TMS)
        for reader in self.readers.values():
            if reader.tm == tm and time > reader.since:
                reader.restart(time)

    def begun(self, tm: str) -> None:
        """A process has started: what was said of its predecessor is of the past."""
        self.off.pop(tm, None)

    def forget(self, job: str) -> None:
        """The job is over."""
        self.readers = {k: r for k, r in self.readers.items() if r.job != job}
        self.counts.pop(job, None)

    def changed(self) -> list[str]:
        """Jobs whose readers have been sampled since the last call."""
        jobs, self.touched = self.touched, []
        return jobs

    def leaking(self, job: str, checkpoints: int, flat_for: int) -> list[Reader]:
        """Readers of the job that own a split, have read nothing and have committed nothing for so long."""
        found = []
        for reader in self.readers.values():
            if reader.job != job or reader.tm in self.off or "" in self.off:
                continue
            idle = reader.owned >= reader.since and reader.moved < reader.since
            if idle and reader.flat >= checkpoints and reader.seen - reader.since >= flat_for:
                reader.said = True
                found.append(reader)
        return found

    def cured(self, job: str) -> str:
        """Why the job leaks no more, once no reader of it does; else empty."""
        why = self.cures.pop(job, "")
        return why if not any(r.said for r in self.readers.values() if r.job == job) else ""

    def flat(self) -> dict[str, int]:
        """Checkpoints since the last commit by job: the most of its readers that own a split."""
        found: dict[str, int] = {}
        for reader in self.readers.values():
            if reader.owned >= 0:
                found[reader.job] = max(found.get(reader.job, 0), reader.flat)
        return found

    def _succeeded(self, reader: Reader, value: float, time: int) -> None:
        if time <= reader.seen:
            return
        count = self.counts.get(reader.job)
        if reader.succeeded < 0:
            # Nothing committed, nothing restarted: all that has completed since the start counts.
            fresh = value == 0 and count is not None and count.restarts == 0
            reader.restart(time, 0.0 if fresh else -1.0)
        elif value != reader.succeeded:
            reader.restart(time)
            if value > reader.succeeded:
                self._cure(reader, "its readers commit again")
        reader.succeeded, reader.seen = value, time
        known = count.at(time) if count is not None else None
        if known is not None and reader.base >= 0:
            reader.flat = max(int(known - reader.base), 0)
        if reader.job not in self.touched:
            self.touched = [*self.touched, reader.job]

    def _cure(self, reader: Reader, why: str) -> None:
        if reader.said:
            reader.said = False
            put(self.cures, reader.job, why, _MAX_JOBS)

    def _count(self, job: str) -> Count:
        count = self.counts.get(job)
        if count is None:
            count = Count()
            put(self.counts, job, count, _MAX_JOBS)
        return count

    def _counted(self, job: str, count: Count, value: float, time: int) -> None:
        if time <= count.time:
            return
        if value < count.value:
            self._again(job, time)
        count.time_before, count.value_before = count.time, count.value
        count.time, count.value = time, value
        for reader in self.readers.values():
            if reader.job == job and reader.base < 0 and reader.since < time:
                reader.base = value

    def _again(self, job: str, time: int) -> None:
        for reader in self.readers.values():
            if reader.job == job and time > reader.since:
                reader.restart(time)
