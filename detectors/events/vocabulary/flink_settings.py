"""Settings that a process of Flink prints at its start: only those on which incidents depend."""

import re

from detectors.events.vocabulary.pattern import LogPattern

SETTINGS: tuple[str, ...] = (
    "execution.checkpointing.externalized-checkpoint-retention",
    "execution.checkpointing.interval",
    "execution.checkpointing.tolerable-failed-checkpoints",
    "execution.checkpointing.unaligned",
    "execution.checkpointing.unaligned.enabled",
    "heartbeat.timeout",
    "high-availability",
    "high-availability.type",
    "high-availability.zookeeper.client.session-timeout",
    "restart-strategy",
    "restart-strategy.type",
    "state.backend",
    "state.backend.type",
    "taskmanager.memory.jvm-metaspace.size",
    "taskmanager.numberOfTaskSlots",
    "taskmanager.registration.timeout",
)
"""Keys of Flink's configuration. None of them has a secret, a host or a path as its value."""

_KEYS = "|".join(map(re.escape, SETTINGS))

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern("configured", rf"Loading configuration property: (?P<key>{_KEYS}), *(?P<value>.+)"),
)
