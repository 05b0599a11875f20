"""Why subtasks are late for a checkpoint, as far as lines and metrics prove it.

A notice of the abort is written only where the barrier had not come through. `Received late message` means that the
barrier had come through, if it comes from Flink 1.11 or later (a task that is notified of an abort begins nothing after
it) or if barriers may overtake data: then the upload was slow. Older versions write it in both cases, which only
metrics distinguish.
"""

import re
from typing import Literal

import msgspec

from detectors.events.event import Sample
from detectors.flink.task_load import JobLoad, TaskLoad, UsualLoadThresholds
from detectors.values.bounded import put_bounded
from detectors.values.versions import version_numbers

Reason = Literal["barrier", "upload", ""]
"""The barrier did not come through, the upload was slow, or neither is proven."""


class Cause(msgspec.Struct, array_like=True, frozen=True):
    """What is proven: the reason, the task that lets no barrier through, and whether it waits for Kafka."""

    reason: Reason = ""
    task: str = ""
    kafka: bool = False


_NOTICED_SINCE = (1, 11)
_MAX_TASKS = 64
_UNALIGNED = re.compile(r"execution\.checkpointing\.unaligned(\.enabled)?")


_THRESHOLDS = UsualLoadThresholds(min_duration=0, sample_max_age=180_000)
"""One scrape is enough, because the late checkpoint proves that it lasts."""


class Hold(msgspec.Struct, array_like=True):
    """What may hold up the barriers of a job: busy tasks, and tasks whose Kafka clients have no connection."""

    load: JobLoad = msgspec.field(default_factory=JobLoad)
    unconnected: dict[str, int] = {}

    def take(self, sample: Sample, time: int) -> None:
        """Take in a sample of a subtask."""
        if sample.name != "kafka_connections":
            self.load.take(sample, time, _THRESHOLDS)
        elif sample.value == 0:
            put_bounded(self.unconnected, sample.labels.get("task_id", ""), time, _MAX_TASKS)
        elif sample.value > 0:
            self.unconnected.pop(sample.labels.get("task_id", ""), None)

    def task(self, time: int) -> tuple[str, bool]:
        """(The task that holds up the others, whether it waits for Kafka); empty if metrics show none."""
        found: tuple[str, TaskLoad] | None = self.load.slowest(time, _THRESHOLDS)
        if found is None:
            return "", False
        task_id, task = found
        return task.name, time - self.unconnected.get(task_id, 0) <= _THRESHOLDS.sample_max_age

    def cause(self, before: Cause, noticed: int, version: str, unaligned: bool, skewed: bool, time: int) -> Cause:
        """Why subtasks were late of which so many had not begun the checkpoint; a task that was seen is kept."""
        task, kafka = self.task(time)
        if not noticed and (unaligned or self.load.has_busy or version_numbers(version) >= _NOTICED_SINCE):
            return Cause("upload")
        if not noticed and not skewed and not task:
            return Cause()
        return Cause("barrier", task or before.task, kafka if task else before.kafka)


def sets_unaligned(key: str, value: str) -> bool | None:
    """Whether a setting lets barriers overtake data; None if it is another setting.

    >>> sets_unaligned("execution.checkpointing.unaligned.enabled", "true"), sets_unaligned("heartbeat.timeout", "5")
    (True, None)
    """
    return value.strip().lower() == "true" if _UNALIGNED.fullmatch(key) else None
