"""Flink's log lines and metric names as data: one module per subject, one `LogPattern` per form of a log line."""

from detectors.events.vocabulary import (
    checkpoints,
    flink_events,
    flink_settings,
    flinkwatch_itself,
    jobs,
    kafka_clients,
    kafka_sink,
    kafka_source,
    kubernetes,
    leadership,
    processes,
    resource_managers,
)
from detectors.events.vocabulary.pattern import LogPattern

_SUBJECTS = (
    checkpoints,
    jobs,
    processes,
    leadership,
    flink_settings,
    flinkwatch_itself,
    resource_managers,
    kafka_source,
    kafka_sink,
    kafka_clients,
    kubernetes,
    flink_events,
)

PATTERNS: tuple[LogPattern, ...] = tuple(pattern for subject in _SUBJECTS for pattern in subject.PATTERNS)
"""All patterns, in the order in which they are tried."""
