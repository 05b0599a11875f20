"""Kafka readers and their commits: how many checkpoints have completed since the commits of a reader last changed.

Counters of readers and of the JobManager come in different scrapes of different age. A reader's flat time starts with a
sample of its counters, and counting starts with the first count of completed checkpoints after that sample, so that a
stale count adds nothing. It ends with a sample of the reader again, compared with an older count.
"""

from collections.abc import Iterable

import msgspec

from detectors.events.event import Sample
from detectors.values.bounded import put_bounded, setdefault_bounded, to_int
from detectors.values.versions import version_numbers

_MAX_READERS = 4_000
_MAX_JOBS = 400
_MAX_TMS = 400
_GAUGES_FOR_MS = 900_000
_LATE_MS = 3_600_000
_STALE_MS = 3_600_000
_FULL_FOR_MS = 600_000
_NEVER = -1
_FIXED = (1, 18)
_OF_READERS = frozenset({"commits_succeeded", "commits_failed", "current_offset", "committed_offset"})
COMMIT_METRICS = (*_OF_READERS, "completed_checkpoints", "restarts")
"""The metrics that `OffsetCommits` takes in."""


def affected(version: str) -> bool:
    """Whether a job of this Flink version may run a connector with FLINK-33231; True if the version is unknown.

    The connector inside Flink 1.17.2 is not fixed either.

    >>> affected("1.17.1"), affected("1.18.0"), affected("")
    (True, False, True)
    """
    return version_numbers(version) < _FIXED


class KafkaReader(msgspec.Struct, array_like=True):
    """One reader: its counters, since when they have not changed, and the job's count then (`base`, -1: none yet).

    There may be thousands, so times are relative to the job (`CommittingJob.at`) and names are indexes into its lists.
    `flat` checkpoints have completed since, as of `seen`. `owned` and `moved` are the times at which an offset of its
    partitions was last seen, and last seen to be 0 or more. `leaks`: it was found to leak, which nothing has disproved.
    """

    tm: int
    operator: int
    since: int
    succeeded: int = -1
    failed: int = -1
    seen: int = 0
    base: int = -1
    flat: int = 0
    owned: int = _NEVER
    moved: int = _NEVER
    topic: int = -1
    leaks: bool = False

    def restart(self, time: int, base: int = -1) -> None:
        self.since, self.base, self.flat = time, base, 0


class CommittingJob(msgspec.Struct, array_like=True):
    """A job: its readers by operator and subtask, and its last two counts of completed checkpoints with their times.

    The counts come from the gauge or else from lines. `operators` are IDs with names. Times are in ms since `begun`.
    """

    begun: int
    name: str = ""
    readers: dict[str, KafkaReader] = {}
    operators: list[str] = []
    tms: list[str] = []
    topics: list[str] = []
    time: int = _NEVER
    value: int = 0
    time_before: int = _NEVER
    value_before: int = 0
    gauge: int = _NEVER
    line: int = -1
    restarts: int = -1

    def at(self, time: int) -> int:
        return max(time - self.begun, 0)

    def count(self, at: int) -> int | None:
        """The count of completed checkpoints known at a time of this job, or None."""
        if _NEVER < self.time <= at:
            return self.value
        return self.value_before if _NEVER < self.time_before <= at else None

    def counted(self, value: int, at: int) -> None:
        if at <= self.time:
            return
        if value < self.value:
            self.again(at)
        self.time_before, self.value_before = self.time, self.value
        self.time, self.value = at, value
        for reader in self.readers.values():
            if reader.base < 0 and reader.since < at:
                reader.base = value

    def count_by_gauge(self) -> None:
        """Count by the gauge from now on: from the start of the job, while lines count from the first that was read."""
        self.time = self.time_before = _NEVER
        self.value = self.value_before = 0
        for reader in self.readers.values():
            reader.base = min(reader.base, 0)

    def never_restarted(self) -> None:
        """The job has not restarted. Readers that were sampled first have committed nothing since its start either."""
        for reader in self.readers.values():
            if reader.seen == reader.since and reader.succeeded == 0 and reader.failed <= 0:
                reader.base = 0

    def again(self, at: int, tm: str | None = None) -> None:
        """Restart the flat time of all readers, or of those on one TaskManager."""
        for reader in self.readers.values():
            if (tm is None or self.tms[reader.tm] == tm) and at > reader.since:
                reader.restart(at)

    def leaking(self) -> list[KafkaReader]:
        return [r for r in self.readers.values() if r.leaks]

    def flat(self) -> int | None:
        """Highest number of checkpoints since a commit among readers that own a split; None without such a reader."""
        return max((r.flat for r in self.readers.values() if r.owned > _NEVER), default=None)

    def on(self, readers: Iterable[KafkaReader]) -> set[str]:
        return {self.tms[r.tm] for r in readers}

    def read_by(self, readers: Iterable[KafkaReader]) -> str:
        """The topics of these readers, at most three, for a message."""
        return ", ".join(sorted({self.topics[r.topic] for r in readers if r.topic >= 0} - {""})[:3])


class OffsetCommits(msgspec.Struct, array_like=True):
    """All jobs of a cluster by id.

    `off` holds the TaskManagers that do not commit. Until `full` new readers are ignored, because there are too many.
    """

    jobs: dict[str, CommittingJob] = {}
    off: dict[str, int] = {}
    touched: list[str] = []
    cures: dict[str, str] = {}
    full: int = 0

    def measure(self, sample: Sample, time: int) -> bool:
        """Take in a sample. Returns False if it is none of `COMMIT_METRICS`."""
        if sample.name in _OF_READERS:
            self._sampled(sample, time)
        elif sample.name == "completed_checkpoints":
            self._completed(sample.labels.get("job_id", ""), sample.value, time)
        elif sample.name == "restarts":
            self._restarted(sample.labels.get("job_id", ""), sample.value, time)
        else:
            return False
        return True

    def _sampled(self, sample: Sample, time: int) -> None:
        labels = sample.labels
        name = labels.get("job_id", "")
        job = self._job(name, time)
        at, tm = job.at(time), labels.get("tm_id", "")
        which = f"{labels.get('operator_id', '')} {labels.get('operator_name', '')}"
        operator = _number(job.operators, which, (r.operator for r in job.readers.values()))
        key = f"{operator}|{labels.get('subtask_index', '')}"
        reader = job.readers.get(key)
        if reader is None or (job.tms[reader.tm] != tm and at > reader.seen):
            if reader is None and not self._room(time):
                return
            number = _number(job.tms, tm, (r.tm for r in job.readers.values()))
            reader = KafkaReader(number, operator, at, leaks=reader is not None and reader.leaks)
            job.readers[key] = reader
            job.name = labels.get("job_name", "")
        if job.tms[reader.tm] != tm:
            return
        match sample.name:
            case "commits_succeeded":
                self._succeeded(name, job, reader, to_int(sample.value), at)
            case "commits_failed":
                failed = to_int(sample.value)
                if reader.failed not in (-1, failed) and at > reader.since:
                    reader.restart(at)
                reader.failed = failed
            case _:
                reader.owned = max(reader.owned, at)
                reader.topic = _number(job.topics, labels.get("topic", ""), (r.topic for r in job.readers.values()))
                if sample.value >= 0:
                    reader.moved = max(reader.moved, at)
                    self._cure(name, reader, f"a reader of {job.topics[reader.topic]} has an offset again")

    def _completed(self, name: str, value: float, time: int) -> None:
        job = self._job(name, time)
        at = job.at(time)
        if job.gauge == _NEVER:
            job.count_by_gauge()
        job.gauge = max(job.gauge, at)
        job.counted(to_int(value), at)

    def completed_line(self, name: str, number: int, time: int) -> None:
        """Take in a line about a completed checkpoint. Lines count only without a recent gauge."""
        job = self._job(name, time)
        if number > job.line:
            job.line = number
            at = job.at(time)
            if job.gauge == _NEVER or at - job.gauge > _GAUGES_FOR_MS:
                job.counted(job.value + 1, max(at, job.time + 1))

    def _restarted(self, name: str, value: float, time: int) -> None:
        """Take in the job's counter of restarts. After a restart its readers are new."""
        job, count = self._job(name, time), to_int(value)
        if job.restarts not in (-1, count):
            job.again(job.at(time))
        elif job.restarts < 0 and not count:
            job.never_restarted()
        job.restarts = count

    def refused(self, tm: str, for_ever: bool, time: int) -> None:
        """Note that a TaskManager failed to commit, or never commits (`for_ever`)."""
        if for_ever:
            put_bounded(self.off, tm, time, _MAX_TMS)
        for job in self.jobs.values():
            job.again(job.at(time), tm)

    def begun(self, tm: str) -> None:
        """A process started: lines of its predecessor no longer apply."""
        self.off.pop(tm, None)

    def forget(self, name: str) -> None:
        self.jobs.pop(name, None)

    def changed(self) -> list[str]:
        """The jobs whose readers have been sampled since the last call."""
        jobs, self.touched = self.touched, []
        return jobs

    def leaking(self, name: str, checkpoints: int, flat_for: int) -> list[KafkaReader]:
        """Readers of the job that own a split and have neither read nor committed for that many checkpoints and ms."""
        job = self.jobs[name]
        found = [
            reader
            for reader in job.readers.values()
            if reader.flat >= checkpoints
            and reader.seen - reader.since >= flat_for
            and reader.moved < reader.since <= reader.owned
            and not {job.tms[reader.tm], ""} & self.off.keys()
        ]
        for reader in found:
            reader.leaks = True
        return found

    def cured(self, name: str) -> str:
        """Why the job no longer leaks; empty while one of its readers does."""
        why = self.cures.pop(name, "")
        return why if name not in self.jobs or not self.jobs[name].leaking() else ""

    def _succeeded(self, name: str, job: CommittingJob, reader: KafkaReader, value: int, at: int) -> None:
        if at <= reader.seen:
            return
        if reader.succeeded < 0:
            # No commits and no restarts: all checkpoints completed since the start count.
            reader.restart(at, 0 if value == 0 and job.restarts == 0 else -1)
        elif value != reader.succeeded:
            reader.restart(at)
            if value > reader.succeeded:
                self._cure(name, reader, "its readers commit again")
        reader.succeeded, reader.seen = value, at
        known = job.count(at)
        if known is not None and reader.base >= 0:
            reader.flat = max(known - reader.base, 0)
        if name not in self.touched:
            self.touched = [*self.touched, name]

    def _cure(self, name: str, reader: KafkaReader, why: str) -> None:
        if reader.leaks:
            reader.leaks = False
            put_bounded(self.cures, name, why, _MAX_JOBS)

    def _job(self, name: str, time: int) -> CommittingJob:
        return setdefault_bounded(self.jobs, name, CommittingJob(time - _LATE_MS), _MAX_JOBS)

    def _room(self, time: int) -> bool:
        """Whether one more reader can be kept, after dropping readers that are gone."""
        if self.full - _FULL_FOR_MS <= time < self.full:
            return False
        if self._readers() < _MAX_READERS:
            return True
        for job in self.jobs.values():
            oldest = job.at(time) - _STALE_MS
            job.readers = {k: r for k, r in job.readers.items() if max(r.seen, r.since) >= oldest}
        self.full = time + _FULL_FOR_MS
        return self._readers() < _MAX_READERS

    def _readers(self) -> int:
        return sum(len(job.readers) for job in self.jobs.values())


def _number(names: list[str], name: str, used: Iterable[int]) -> int:
    """The index of a name in a list, which is one that is no longer in use if the name is new."""
    if name in names:
        return names.index(name)
    taken = set(used)
    number = next((n for n in range(len(names)) if n not in taken), len(names))
    names[number : number + 1] = [name]
    return number
