"""Flink's log vocabulary as data: one module per subject, one `LogPattern` per way a meaning has been written."""

from detectors.events.vocabulary import (
    checkpoints,
    failures,
    flinkwatch_itself,
    jobs,
    kafka_source,
    leadership,
    memory,
    processes,
    resource_managers,
    taskmanagers,
)
from detectors.events.vocabulary.pattern import LogPattern

WORDINGS: tuple[LogPattern, ...] = (
    *checkpoints.WORDINGS,
    *jobs.WORDINGS,
    *failures.WORDINGS,
    *taskmanagers.WORDINGS,
    *leadership.WORDINGS,
    *memory.WORDINGS,
    *processes.WORDINGS,
    *flinkwatch_itself.WORDINGS,
    *resource_managers.WORDINGS,
    *kafka_source.WORDINGS,
)
"""In the order in which they are tried."""
