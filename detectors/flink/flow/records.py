"""Subtasks whose records no longer move although records wait before them.

A subtask moves when any of its counters rises: records in and out of the task, or of an operator chained in it, such as
a window that emits for minutes into its own sink. Whether it is busy, backpressured or has full inputs is the
load (`flink/task_load.py`).
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from detectors.events.event import Sample
from detectors.flink.calm import ENOUGH_SAMPLES
from detectors.flink.flow.pauses import Patience, UsualPause
from detectors.flink.task_load import JobLoad, TaskLoad, UsualLoadThresholds
from detectors.values.bounded import put_bounded, to_int

COUNTERS = ("records_in", "records_out", "operator_records_in", "operator_records_out")
_OF_TASK = ("records_in", "records_out")
_INPUTS = ("in_pool_usage", "input_queue_length")
_MAX_TASKS = 64
_MAX_SUBTASKS = 512
_MAX_CHAINED = 32
_SOURCE = "Source"


class SubtaskRecords(msgspec.Struct, array_like=True):
    """The counters of one subtask.

    `since` is the event time of its last movement, `last` that of its last sample; `flat` counts the samples after the
    one in which it moved, `moves` those in which it moved since its attempt began or was reported stuck. `attempt`
    counts its attempts. `chained` has counters of its operators, kept only while the task's own counters do not move.
    """

    tm: str
    host: str
    since: int
    last: int
    counters: list[int]
    flat: int = 0
    moves: int = 0
    attempt: int = 0
    chained: dict[str, int] = {}

    def paused(self, time: int, limit: int, samples: int, max_age: int) -> bool:
        """Whether it has not moved for at least `limit`, seen in enough `samples`, after it had read something."""
        # The last sample in which it moved, or the first of its attempt, shows the same values: it is one of them.
        enough = self.flat + 1 >= samples and self.last - self.since >= limit
        return enough and max(self.counters) > 0 and time - self.last <= max_age

    def again(self, tm: str, host: str, time: int) -> None:
        """Another attempt has begun."""
        self.tm, self.host, self.since, self.last, self.counters = tm, host, time, time, [-1, -1]
        self.flat = self.moves = 0
        self.attempt += 1
        self.chained.clear()


class TaskRecords(msgspec.Struct, array_like=True):
    """The subtasks of a task. `pending` has those of a source with records to read, with the time of the sample."""

    name: str
    subtasks: dict[str, SubtaskRecords] = {}
    pause: UsualPause = msgspec.field(default_factory=UsualPause)
    pending: dict[str, int] = {}


class StuckTask(NamedTuple):
    """A task with subtasks that do not move although records wait; `busy`: they are busy all the time."""

    task_id: str
    task: TaskRecords
    subtasks: list[str]
    busy: bool


class JobRecords(msgspec.Struct, array_like=True):
    """The records and the load of all tasks of a job, by task id."""

    tasks: dict[str, TaskRecords] = {}
    load: JobLoad = msgspec.field(default_factory=JobLoad)

    def take(self, samples: Iterable[Sample], time: int, patience: Patience) -> None:
        """Take in the samples of one scrape. Counters come first: a pause that ends is judged by the load in it."""
        limits = UsualLoadThresholds(patience.min_duration, patience.sample_max_age)
        for sample in sorted(samples, key=lambda s: s.name not in COUNTERS):
            if sample.name in COUNTERS:
                self._count(sample, time, patience)
            elif sample.name == "pending_records":
                self._pending(sample, time)
            else:
                self.load.take(sample, time, limits)

    def restarted(self, time: int) -> None:
        """The job restarts: each attempt of a subtask is judged by itself, also if all stop at the same record."""
        for known in (s for task in self.tasks.values() for s in task.subtasks.values()):
            if known.since < time:
                known.again(known.tm, known.host, time)

    def stuck(self, time: int, patience: Patience) -> StuckTask | None:
        """The task that processes nothing although records wait before it; the one that stopped first.

        Once one of its subtasks is proven to be stuck, half the evidence is enough for the others: the TaskManagers are
        not scraped at once.
        """
        paused = {task_id: own for task_id, task in self.tasks.items() if (own := _paused(task, time, patience))}
        max_age, found = patience.sample_max_age, list[StuckTask]()
        for task_id, subtasks in paused.items():
            busy = {s for s in subtasks if self._is_blocking(task_id, s, time, max_age)}
            if busy:
                own = [s for s in subtasks if s in busy or self._is_full(task_id, s, time, max_age)]
                found.append(StuckTask(task_id, self.tasks[task_id], own, self.load.has_busy))
        # A task may also wait without work while a barrier or another input is late, so nothing else may move.
        if paused and not found and self._nothing_moves(time, patience):
            for task_id, subtasks in paused.items():
                full = [s for s in subtasks if self._is_full(task_id, s, time, max_age)]
                if full:
                    found.append(StuckTask(task_id, self.tasks[task_id], full, busy=False))
        return min((f for f in found if _is_proven(f, time, patience)), key=_stopped_at, default=None)

    def moves_again(self, task_id: str, subtasks: dict[str, int], time: int, patience: Patience) -> bool:
        """Whether subtasks that were stuck in these attempts no longer are, by as many samples as proved it."""
        task, max_age = self.tasks.get(task_id), patience.sample_max_age
        if task is None:
            return True
        moving = {s for s, now in task.subtasks.items() if now.moves >= ENOUGH_SAMPLES and time - now.last <= max_age}
        for subtask in subtasks.keys() - moving:
            now = task.subtasks.get(subtask)
            if now is None or time - now.last > max_age:
                # After a rescaling the subtask may no longer exist.
                if not moving:
                    return False
                continue
            calm = now.flat >= ENOUGH_SAMPLES and self.waits_for_work(task_id, subtask, time, max_age)
            if now.attempt == subtasks[subtask] or not calm:
                return False
        return True

    def waits_for_work(self, task_id: str, subtask: str, time: int, max_age: int) -> bool:
        """Whether nothing waits before a subtask: it is not busy, and its inputs are not full."""
        load = self.load.tasks.get(task_id)
        busy = load is not None and subtask in load.hot and time - load.hot[subtask].last <= max_age
        return not busy and not self._is_full(task_id, subtask, time, max_age)

    def _is_blocking(self, task_id: str, subtask: str, time: int, max_age: int) -> bool:
        """Whether a subtask is busy and not backpressured itself, and records wait before it."""
        load, task = self.load.tasks.get(task_id), self.tasks[task_id]
        hot = load.hot.get(subtask) if load is not None else None
        if load is None or hot is None or time - hot.last > max_age or _waits(load, subtask, time - max_age):
            return False
        # A source that polls is busy even if there is nothing to read, and it has no input whose buffers could fill.
        if task.name.startswith(_SOURCE):
            return time - task.pending.get(subtask, time - max_age - 1) <= max_age
        others = (other for other_id, other in self.load.tasks.items() if other_id != task_id)
        return self._is_full(task_id, subtask, time, max_age) or any(
            at >= time - max_age for other in others for at in other.waits.values()
        )

    def _is_full(self, task_id: str, subtask: str, time: int, max_age: int) -> bool:
        load = self.load.tasks.get(task_id)
        fresh = time - max_age
        if load is None or _waits(load, subtask, fresh):
            return False
        return any(load.full.get(f"{subtask}|{name}", fresh - 1) >= fresh for name in _INPUTS)

    def _nothing_moves(self, time: int, patience: Patience) -> bool:
        """Whether every subtask that is measured has stopped."""
        known = (s for task in self.tasks.values() for s in task.subtasks.values())
        return all(s.last - s.since >= patience.min_duration or time - s.last > patience.sample_max_age for s in known)

    def _count(self, sample: Sample, time: int, patience: Patience) -> None:
        labels, own = sample.labels, sample.name in _OF_TASK
        task_id, subtask = labels.get("task_id", ""), labels.get("subtask_index", "")
        task = self.tasks.get(task_id)
        known = task.subtasks.get(subtask) if task is not None else None
        if not own:
            if task is not None and known is not None and known.flat:
                self._count_chained(task_id, task, subtask, sample, time, patience)
            return
        value, tm, host = to_int(sample.value), labels.get("tm_id", ""), labels.get("host", "")
        if task is None:
            task = TaskRecords(labels.get("task_name", task_id))
            put_bounded(self.tasks, task_id, task, _MAX_TASKS)
        if known is None:
            known = SubtaskRecords(tm, host, time, time, [-1, -1])
            put_bounded(task.subtasks, subtask, known, _MAX_SUBTASKS)
        if time < known.last:
            return
        which = _OF_TASK.index(sample.name)
        before = known.counters[which]
        if value < before or known.tm != tm:
            known.again(tm, host, time)
        elif before >= 0 and value > before:
            self._moved(task_id, task, subtask, time, patience)
        elif which == 0 and before >= 0 and time > max(known.last, known.since):
            known.flat += 1
        known.counters[which] = value
        if which == 0:
            known.last = time

    def _count_chained(
        self, task_id: str, task: TaskRecords, subtask: str, sample: Sample, time: int, patience: Patience
    ) -> None:
        known, value = task.subtasks[subtask], to_int(sample.value)
        key = f"{sample.labels.get('operator_name', '')}|{sample.name}"
        if value > known.chained.get(key, value):
            self._moved(task_id, task, subtask, time, patience)
        elif time >= known.last:
            put_bounded(known.chained, key, value, _MAX_CHAINED)

    def _moved(self, task_id: str, task: TaskRecords, subtask: str, time: int, patience: Patience) -> None:
        """A subtask has moved. A pause in which records waited is usual from now on."""
        known = task.subtasks[subtask]
        if time <= known.since:
            return
        if known.flat and not self.waits_for_work(task_id, subtask, time, patience.sample_max_age):
            task.pause.learn(time - known.since, known.since, time, patience.pause_factor, patience.min_duration)
        known.since, known.flat = time, 0
        known.moves += 1
        known.chained.clear()

    def _pending(self, sample: Sample, time: int) -> None:
        task = self.tasks.get(sample.labels.get("task_id", ""))
        if task is None or not task.name.startswith(_SOURCE):
            return
        subtask = sample.labels.get("subtask_index", "")
        if sample.value > 0:
            put_bounded(task.pending, subtask, time, _MAX_SUBTASKS)
        else:
            task.pending.pop(subtask, None)


def _limit(task: TaskRecords, patience: Patience) -> int:
    """How long a task must have paused to count as stuck."""
    return max(patience.min_duration, round(patience.pause_factor * task.pause.longest))


def _paused(task: TaskRecords, time: int, patience: Patience) -> list[str]:
    """The subtasks that may be stuck: they have paused for half the time that proves it."""
    limit, max_age = _limit(task, patience) // 2, patience.sample_max_age
    return [s for s, known in task.subtasks.items() if known.paused(time, limit, ENOUGH_SAMPLES - 1, max_age)]


def _is_proven(stuck: StuckTask, time: int, patience: Patience) -> bool:
    limit, max_age = _limit(stuck.task, patience), patience.sample_max_age
    return any(stuck.task.subtasks[s].paused(time, limit, ENOUGH_SAMPLES, max_age) for s in stuck.subtasks)


def _stopped_at(stuck: StuckTask) -> tuple[int, str]:
    return min(stuck.task.subtasks[s].since for s in stuck.subtasks), stuck.task_id


def _waits(load: TaskLoad, subtask: str, fresh: int) -> bool:
    """Whether a subtask is backpressured itself."""
    names = ("backpressured_time", "is_backpressured")
    return any(load.waits.get(f"{subtask}|{name}", fresh - 1) >= fresh for name in names)
