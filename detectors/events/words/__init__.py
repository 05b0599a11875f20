"""Flink's log vocabulary as data: one module per subject, one `Wording` per way a meaning has been written."""

from detectors.events.words import (
    checkpoints,
    failures,
    inputs,
    jobs,
    leadership,
    memory,
    processes,
    resource_managers,
    sources,
    taskmanagers,
)
from detectors.events.words.wording import Wording

WORDINGS: tuple[Wording, ...] = (
    *checkpoints.WORDINGS,
    *jobs.WORDINGS,
    *failures.WORDINGS,
    *taskmanagers.WORDINGS,
    *leadership.WORDINGS,
    *memory.WORDINGS,
    *processes.WORDINGS,
    *inputs.WORDINGS,
    *resource_managers.WORDINGS,
    *sources.WORDINGS,
)
"""In the order in which they are tried."""
