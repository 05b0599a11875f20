"""Subtasks whose event-time watermark does not advance although records arrive, and the source that holds it back.

A task's input watermark is the lowest of its inputs, so one source subtask or one partition that is silent holds back
the watermark of every task behind it. Flink writes −2^63 before the first watermark and 2^63 − 1 at the end of the
input; neither reaches a detector, because no sample is that large.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from detectors.events.event import Sample
from detectors.flink.flow.pauses import Patience, UsualPause
from detectors.flink.flow.subtask_watermarks import InputWatermark, OutputWatermark
from detectors.values.bounded import put_bounded, to_int

_MAX_TASKS = 64
_MAX_SUBTASKS = 512
_MAX_PARTITIONS = 512
_AVERAGED = 8
_COUNTERS = ("records_in", "records_out")


class WatermarkPatience(Patience, Protocol):
    """The same for watermarks: nothing is reported for a while after a restart."""

    @property
    def catch_up(self) -> int: ...


class TaskWatermarks(msgspec.Struct, array_like=True):
    """The watermarks of a task's subtasks: the `inputs`, or the `outputs` of one `operator` if it is a source.

    `pause` is the time between two advances in which records arrive, `step` the smallest advance, less the time between
    its two samples: a watermark that follows the clock advances by that much without any steps.
    """

    name: str
    inputs: dict[str, InputWatermark] = {}
    outputs: dict[str, OutputWatermark] = {}
    operator: str = ""
    pause: UsualPause = msgspec.field(default_factory=UsualPause)
    step: int = 0


class StalledTask(NamedTuple):
    """A task with subtasks whose watermark does not advance although they receive records."""

    task_id: str
    task: TaskWatermarks
    subtasks: list[str]


class Holder(NamedTuple):
    """A source subtask that holds the watermark back: its task, index, and what it emits."""

    task: str
    subtask: str
    output: OutputWatermark


class JobWatermarks(msgspec.Struct, array_like=True):
    """The watermarks of all tasks of a job, by task id.

    `restarted` is the event time of the last restart. `offsets` are those of each partition when a watermark was first
    suspected, by task, subtask and partition, with the number of samples; 0 once they have moved.
    """

    tasks: dict[str, TaskWatermarks] = {}
    restarted: int | None = None
    suspected: bool = False
    offsets: dict[str, tuple[int, int]] = {}

    def take(self, samples: Iterable[Sample], time: int, patience: Patience) -> None:
        """Take in the samples of one scrape.

        Counters come first, because an advance is judged by them; offsets come last and count while a watermark is
        suspected.
        """
        offsets = list[Sample]()
        for sample in sorted(samples, key=lambda s: s.name not in _COUNTERS):
            task = self.tasks.get(sample.labels.get("task_id", ""))
            if sample.name == "input_watermark":
                self._input(sample, time, patience)
            elif sample.name == "output_watermark":
                self._output(sample, time)
            elif task is None:
                continue
            elif sample.name in _COUNTERS:
                self._count(task, sample, time)
            elif sample.name == "source_idle_time":
                output = task.outputs.get(sample.labels.get("subtask_index", ""))
                if output is not None:
                    output.idle = to_int(sample.value)
            else:
                offsets.append(sample)
        if offsets and self._suspect(time, patience):
            for sample in offsets:
                self._offset(sample)

    def stalled(self, time: int, patience: WatermarkPatience) -> StalledTask | None:
        """The first task of the job, as data flows, whose watermark does not advance although records arrive.

        Watermarks do not rise on their way through a job, so the first one has the highest.
        """
        found = list[tuple[int, int, StalledTask]]()
        for task_id, task in self.tasks.items():
            own = {s: w for s, w in task.inputs.items() if w.rises and time - w.last <= patience.sample_max_age}
            late = [s for s, w in own.items() if _is_stalled(task, w, time, patience)]
            if late and not self._another_emits(task_id, min(own[s].value for s in late), time, patience):
                first = max(late, key=lambda s: (own[s].value, own[s].records))
                found.append((own[first].value, own[first].records, StalledTask(task_id, task, late)))
        if self.restarted is not None and time - self.restarted < patience.catch_up:
            return None
        return max(found, key=lambda f: f[:2])[2] if found else None

    def holders(self, stalled: StalledTask, time: int, patience: Patience) -> tuple[list[Holder], int]:
        """(the source subtasks that hold back a watermark, the number of source subtasks whose watermark is known).

        A source whose watermark is lower than the one that is held back does not count for it: it is marked as idle.
        """
        value = min(stalled.task.inputs[s].value for s in stalled.subtasks)
        since = min(stalled.task.inputs[s].since for s in stalled.subtasks)
        known = [
            Holder(task.name, subtask, output)
            for task in self.tasks.values()
            for subtask, output in task.outputs.items()
            if time - output.last <= patience.sample_max_age
        ]
        # It stopped about when the task's watermark did, and has not advanced for most of the time since then.
        still = [h for h in known if h.output.last - h.output.since >= (time - since) // 2 and h.output.value >= value]
        lowest = min((h.output.value for h in still), default=0)
        return [h for h in still if h.output.value == lowest], len(known)

    def silent_partitions(self, holder: Holder) -> list[str]:
        """The partitions of a source subtask whose offset has not moved since the watermark was first suspected."""
        task_id = next((i for i, t in self.tasks.items() if t.name == holder.task and holder.subtask in t.outputs), "")
        begin = f"{task_id}|{holder.subtask}|"
        return sorted(k.removeprefix(begin) for k, (_, n) in self.offsets.items() if k.startswith(begin) and n > 1)

    def _input(self, sample: Sample, time: int, patience: Patience) -> None:
        task, subtask = self._task(sample), sample.labels.get("subtask_index", "")
        task.outputs.clear()
        value, own = to_int(sample.value), task.inputs.get(subtask)
        if own is None:
            put_bounded(task.inputs, subtask, InputWatermark(value, time, time), _MAX_SUBTASKS)
            return
        if time <= own.last:
            return
        if value > own.value:
            self._advanced(task, own, value, time, patience)
        elif value < own.value:
            own.value, own.since, own.steps = value, time, 0
            own.reset()
            self.restarted = time
        elif own.records > own.counted:
            own.waited += time - own.last
            own.rises += 1
            own.counted = own.records
        own.last = time

    def _advanced(self, task: TaskWatermarks, own: InputWatermark, value: int, time: int, patience: Patience) -> None:
        """A watermark has advanced. The pause before it is usual from now on; while an attempt is new, any pause is.

        A pause that no sample shows is none: it is not longer than the time between two scrapes.
        """
        known = own.stalled or own.shown_to_advance
        if own.rises:
            waited = own.waited + (time - own.last if own.records > own.counted else 0)
            task.pause.learn(waited, own.since, time, patience.pause_factor if known else 0, patience.min_duration)
        # A moving average: what a backlog brings is soon forgotten, and a stall counts as few advances at most.
        records = min(own.records, round(patience.pause_factor * (own.usual + 1))) if known else own.records
        own.usual = own.usual + (records - own.usual) // _AVERAGED if own.steps else records
        step = max(value - own.value - (time - own.last), 1)
        task.step = min(task.step or step, step)
        own.value, own.since = value, time
        own.steps += 1
        own.reset()

    def _output(self, sample: Sample, time: int) -> None:
        task, labels = self._task(sample), sample.labels
        if task.inputs:
            return
        operator = labels.get("operator_name", "")
        task.operator = task.operator or operator
        if operator != task.operator:
            return
        subtask, value = labels.get("subtask_index", ""), to_int(sample.value)
        own = task.outputs.get(subtask)
        if own is None:
            place = (labels.get("tm_id", ""), labels.get("host", ""))
            put_bounded(task.outputs, subtask, OutputWatermark(value, time, time, *place), _MAX_SUBTASKS)
        elif time > own.last:
            if value != own.value:
                own.value, own.since = value, time
            own.last, own.tm, own.host = time, labels.get("tm_id", ""), labels.get("host", "")

    def _count(self, task: TaskWatermarks, sample: Sample, time: int) -> None:
        own, value = task.inputs.get(sample.labels.get("subtask_index", "")), to_int(sample.value)
        if own is None or time < own.last:
            return
        if sample.name == "records_out":
            own.emitted, own.sent = time if value > own.sent >= 0 and own.read < time else 0, value
            return
        if value < own.received:
            own.steps, own.since = 0, time
            own.reset()
            self.restarted = time
        elif value > own.received >= 0:
            own.records += value - own.received
            own.read, own.emitted = time, 0
        own.received = value

    def _offset(self, sample: Sample) -> None:
        labels = sample.labels
        partition = f"{labels.get('topic', '')}-{labels.get('partition', '')}"
        key = f"{labels.get('task_id', '')}|{labels.get('subtask_index', '')}|{partition}"
        before, samples = self.offsets.get(key, (to_int(sample.value), 0))
        moved = before != to_int(sample.value) or (key in self.offsets and not samples)
        put_bounded(self.offsets, key, (before, 0 if moved else samples + 1), _MAX_PARTITIONS)

    def _suspect(self, time: int, patience: Patience) -> bool:
        """Whether a watermark may be held back, so that it matters which partitions are silent."""
        suspected = any(
            own.rises and (own.shown_to_advance or own.stalled) and time - own.last <= patience.sample_max_age
            for task in self.tasks.values()
            for own in task.inputs.values()
        )
        if suspected != self.suspected:
            self.suspected = suspected
            self.offsets.clear()
        return suspected

    def _another_emits(self, task_id: str, value: int, time: int, patience: Patience) -> bool:
        """Whether a task with a watermark at least as high is still emitting what that releases, such as a window.

        It reads nothing meanwhile, and does not pass its own watermark on until it has finished.
        """
        others = (own for i, task in self.tasks.items() if i != task_id for own in task.inputs.values())
        return any(o.emitted and o.value >= value and time - o.emitted <= patience.sample_max_age for o in others)

    def _task(self, sample: Sample) -> TaskWatermarks:
        task_id = sample.labels.get("task_id", "")
        known = self.tasks.get(task_id)
        if known is None:
            known = TaskWatermarks(sample.labels.get("task_name", task_id))
            put_bounded(self.tasks, task_id, known, _MAX_TASKS)
        return known


def _limit(task: TaskWatermarks, patience: Patience) -> int:
    """How long records must have arrived without an advance, in ms."""
    return max(patience.min_duration, round(patience.pause_factor * task.pause.longest))


def _is_stalled(task: TaskWatermarks, own: InputWatermark, time: int, patience: Patience) -> bool:
    """Whether records have arrived for long enough without an advance, in a subtask whose watermark advanced before.

    Fewer records than usually come between two advances are a quiet hour. A watermark that follows the present in
    steps, such as one an hour, only waits for the next step.
    """
    stepped = abs(time - own.value) < patience.pause_factor * task.step
    lasts = own.shown_to_pause and own.waited >= _limit(task, patience)
    return own.shown_to_advance and lasts and own.records >= own.usual and not stepped
