"""The load of a job's tasks: subtasks that are busy all the time, backpressured tasks, full inputs."""

from typing import NamedTuple, Protocol

import msgspec

from detectors.events.event import Sample
from detectors.flink.calm import CalmSamples, still_measured
from detectors.flink.topology import Topology
from detectors.numerics.trend import quantile
from detectors.values.bounded import put_bounded

_MAX_TASKS = 64
_MAX_SUBTASKS = 512
_PEAK_MS = 30_000


class LoadThresholds(Protocol):
    """When a subtask is busy all the time and when it waits; `kinds/data/backpressure.py` describes the settings."""

    @property
    def busy_ms_per_s(self) -> float: ...
    @property
    def no_longer_busy_ms_per_s(self) -> float: ...
    @property
    def backpressured_ms_per_s(self) -> float: ...
    @property
    def input_buffer_usage(self) -> float: ...
    @property
    def input_queue_length(self) -> int: ...
    @property
    def min_duration(self) -> int: ...
    @property
    def sample_max_age(self) -> int: ...


class UsualLoadThresholds(NamedTuple):
    """The thresholds where no setting applies. Legacy sources report backpressure of 100 ms/s at most."""

    min_duration: int
    sample_max_age: int
    busy_ms_per_s: float = 900
    no_longer_busy_ms_per_s: float = 750
    backpressured_ms_per_s: float = 100
    input_buffer_usage: float = 0.95
    input_queue_length: int = 8


class BusySubtask(msgspec.Struct, array_like=True):
    """A subtask that is busy all the time: event times of its start and last sample, value in ms/s, TaskManager.

    `every` is the longest time between two of its samples in ms.
    """

    since: int
    last: int
    value: float
    tm: str
    host: str
    every: int = 0
    calm: CalmSamples = msgspec.field(default_factory=CalmSamples)

    def confirmed(self, limits: LoadThresholds) -> bool:
        """Whether it has been busy for long enough to be reported."""
        return self.last - self.since >= limits.min_duration

    def fresh(self, time: int, limits: LoadThresholds) -> bool:
        """Whether it is still measured."""
        return still_measured(self.last, self.every, time, limits.sample_max_age)

    def take(self, calm: bool, time: int) -> None:
        """Take in another sample, busy or calm."""
        self.every = max(self.every, time - self.last)
        self.last = time
        self.calm.take(calm, time)


class SubtaskInput(msgspec.Struct, array_like=True):
    """Records that a subtask has read: the counter, its event time, and the rate in 1/s (-1: unknown)."""

    sum: float
    time: int
    rate: float = -1.0


class TaskLoad(msgspec.Struct, array_like=True):
    """The load of a task (a vertex of the job): subtasks that are busy (`hot`), backpressured or have full inputs.

    `waits` (backpressured) and `full` hold event times. `inputs` is kept only while a subtask is busy.
    """

    name: str
    hot: dict[str, BusySubtask] = {}
    waits: dict[str, int] = {}
    full: dict[str, int] = {}
    inputs: dict[str, SubtaskInput] = {}

    def count(self, subtask: str, value: float, time: int) -> None:
        """Take in the counter of records read by a subtask, which restarts with a new attempt."""
        last = self.inputs.get(subtask)
        if last is None or value < last.sum:
            put_bounded(self.inputs, subtask, SubtaskInput(value, time), _MAX_SUBTASKS)
        elif time - last.time >= 1_000:
            self.inputs[subtask] = SubtaskInput(value, time, (value - last.sum) * 1000 / (time - last.time))


class JobLoad(msgspec.Struct, array_like=True):
    """The load of all tasks of a job, by task id.

    `has_busy`: Flink reports busyTime; otherwise full input buffers are used instead. `peak` is the busiest subtask of
    this window and of the previous one: [start of the window, ms/s, ms/s].
    """

    tasks: dict[str, TaskLoad] = {}
    has_busy: bool = False
    peak: list[float] = []

    def take(self, sample: Sample, time: int, limits: LoadThresholds) -> None:
        """Take in a sample of one subtask."""
        task_id, subtask = sample.labels.get("task_id", ""), sample.labels.get("subtask_index", "")
        task = self.tasks.get(task_id)
        if sample.name == "busy_time":
            self.has_busy = True
            self._busiest(sample.value, time)
        if sample.name == "busy_time" or (sample.name == "in_pool_usage" and not self.has_busy):
            if self._is_busy(sample, limits):
                task = task or self._task(task_id, sample)
                self._busy(task, subtask, sample, time, limits)
            elif task is not None and subtask in task.hot:
                self._less_busy(task, subtask, sample, time, limits)
        if sample.name == "busy_time":
            return
        limit = {
            "backpressured_time": limits.backpressured_ms_per_s,
            "is_backpressured": 1,
            "input_queue_length": limits.input_queue_length,
        }.get(sample.name, limits.input_buffer_usage)
        key = f"{subtask}|{sample.name}"
        is_full = sample.name in ("in_pool_usage", "input_queue_length")
        if sample.value >= limit:
            task = task or self._task(task_id, sample)
            put_bounded(task.full if is_full else task.waits, key, time, _MAX_SUBTASKS)
        elif task is not None:
            since = task.full if is_full else task.waits
            if since.get(key, time + 1) <= time:
                del since[key]

    def count(self, sample: Sample, time: int) -> None:
        """Take in the counter of records read by a subtask. Only the inputs of a task that is busy matter."""
        task = self.tasks.get(sample.labels.get("task_id", ""))
        if task is not None and task.hot:
            task.count(sample.labels.get("subtask_index", ""), sample.value, time)

    def slowest(self, time: int, limits: LoadThresholds) -> tuple[str, TaskLoad] | None:
        """The task that is busy and not backpressured itself while other tasks wait for it."""
        fresh = time - limits.sample_max_age
        candidates = []
        for task_id, task in self.tasks.items():
            hot = [h for h in task.hot.values() if h.last >= fresh and h.confirmed(limits)]
            others = any(t >= fresh for i, other in self.tasks.items() if i != task_id for t in other.waits.values())
            if hot and (others or any(t >= fresh for t in task.full.values())):
                waits = sum(t >= fresh for t in task.waits.values())
                candidates.append((waits, -max(h.value for h in hot), task_id, task))
        return min(candidates, key=lambda c: c[:3])[2:] if candidates else None

    def is_calm(self, task_id: str, time: int, limits: LoadThresholds) -> bool:
        """Whether no subtask of a task is busy any more. Drops what is too old."""
        task = self.tasks.get(task_id)
        if task is None:
            return True
        task.hot = {s: h for s, h in task.hot.items() if h.fresh(time, limits)}
        if task.hot:
            return False
        task.inputs.clear()
        return True

    def _busiest(self, value: float, time: int) -> None:
        if not self.peak or time - self.peak[0] >= _PEAK_MS:
            self.peak = [time, value, self.peak[1] if self.peak else value]
        else:
            self.peak[1] = max(self.peak[1], value)

    def _task(self, task_id: str, sample: Sample) -> TaskLoad:
        known = self.tasks.get(task_id)
        if known is None:
            known = TaskLoad(sample.labels.get("task_name", task_id))
            put_bounded(self.tasks, task_id, known, _MAX_TASKS)
        return known

    def _is_busy(self, sample: Sample, limits: LoadThresholds) -> bool:
        limit = limits.busy_ms_per_s if sample.name == "busy_time" else limits.input_buffer_usage
        return sample.value >= limit

    def _busy(self, task: TaskLoad, subtask: str, sample: Sample, time: int, limits: LoadThresholds) -> None:
        hot = task.hot.get(subtask)
        tm, host = sample.labels.get("tm_id", ""), sample.labels.get("host", "")
        if hot is None or hot.tm != tm or not hot.fresh(time, limits):
            put_bounded(task.hot, subtask, BusySubtask(time, time, sample.value, tm, host), _MAX_SUBTASKS)
        elif time >= hot.last:
            hot.value = sample.value
            hot.take(False, time)

    def _less_busy(self, task: TaskLoad, subtask: str, sample: Sample, time: int, limits: LoadThresholds) -> None:
        """A burst ends with its first calm sample, a subtask that has been busy for long only with several in a row."""
        hot = task.hot[subtask]
        calm = sample.name != "busy_time" or sample.value < limits.no_longer_busy_ms_per_s
        if time < hot.last:
            return
        if hot.confirmed(limits):
            hot.take(calm, time)
        if calm and (hot.calm.enough() or not hot.confirmed(limits)):
            del task.hot[subtask]


def skew(task: TaskLoad) -> float | None:
    """Ratio of the highest to the median input rate of the subtasks, or None if unknown."""
    rates = [i.rate for i in task.inputs.values() if i.rate >= 0]
    median = quantile(rates, 0.5) if len(rates) > 1 else 0.0
    return max(rates) / median if median > 0 else None


def place(task: TaskLoad, topology: Topology) -> tuple[str, str]:
    """(TaskManager, host) if all busy subtasks are on one TaskManager, named as in logs if possible; else empty."""
    tms = {(h.tm, h.host) for h in task.hot.values()}
    if len(tms) != 1:
        return "", ""
    tm, host = tms.pop()
    return topology.tm_of_label(tm), host


def measured(task: TaskLoad, has_busy: bool) -> str:
    """Describe the busy subtasks for a message: how many, which, and their share of the input."""
    hot = sorted(task.hot, key=lambda s: int(s) if s.isdigit() else 0)
    total = len(task.inputs)
    which = ", ".join(hot[:4]) + (" …" if len(hot) > 4 else "")
    of = f" of {total}" if total >= len(hot) and total else ""
    many = f"{len(hot)}{of} subtask{'s' * (max(len(hot), total) != 1)} ({which})"
    busy = max((h.value for h in task.hot.values()), default=0.0)
    how = f"busy {busy / 10:.0f} % of the time" if has_busy else "with full input buffers"
    text = f"{many} {how}"
    rates = {s: i.rate for s, i in task.inputs.items() if i.rate >= 0}
    share = sum(rates.get(s, 0.0) for s in hot) / sum(rates.values()) if sum(rates.values()) > 0 else 0.0
    if rates and len(hot) < len(rates) and share > 1.2 * len(hot) / len(rates):
        text += f", reading {share:.0%} of its input (fair share {len(hot) / len(rates):.0%})"
    return text
