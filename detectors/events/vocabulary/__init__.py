"""Flink's log lines and metric names as data: one module per subject, one `LogPattern` per form of a log line."""

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

PATTERNS: tuple[LogPattern, ...] = (
    *checkpoints.PATTERNS,
    *jobs.PATTERNS,
    *failures.PATTERNS,
    *taskmanagers.PATTERNS,
    *leadership.PATTERNS,
    *memory.PATTERNS,
    *processes.PATTERNS,
    *flinkwatch_itself.PATTERNS,
    *resource_managers.PATTERNS,
    *kafka_source.PATTERNS,
)
"""All patterns, in the order in which they are tried."""
