"""The load of a job's tasks: subtasks that are busy all the time, backpressured tasks, full inputs."""

import msgspec

from detectors.flink.topology import Topology
from detectors.numerics.trend import quantile
from detectors.values.bounded import put_bounded

_MAX_SUBTASKS = 512


class BusySubtask(msgspec.Struct, array_like=True):
    """A subtask that is busy all the time: event times of its start and last sample, value in ms/s, TaskManager."""

    since: int
    last: int
    value: float
    tm: str
    host: str


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
