"""Checkpoints that take far longer than a job's usual ones, counted in a row."""

from typing import Protocol

import msgspec

from detectors.incident import Evidence
from detectors.numerics.trend import quantile

_HISTORY = 16
_MAX_SLOW = 16
_MOST_MS = 1e15


class SlownessThresholds(Protocol):
    """When a checkpoint is slow; `kinds/data/backpressure.py` describes the settings."""

    @property
    def slow_checkpoint_factor(self) -> float: ...
    @property
    def slow_checkpoint_min_duration(self) -> int: ...
    @property
    def min_history(self) -> int: ...
    @property
    def catch_up(self) -> int: ...


class SlowCheckpoints(msgspec.Struct, array_like=True):
    """The newest checkpoints of a job, and how many in a row were slow or fast.

    `usual` holds the durations (ms) of checkpoints that were not slow, `points` the latest of all as (s, ms), `slow`
    the records of those that were slow in a row, `healthy` the number of those that were not. `by_log`: the durations
    come from log lines. Before `quiet_until` none counts as slow: the job works off its backlog.
    """

    usual: list[int] = []
    points: list[tuple[int, int]] = []
    slow: list[Evidence] = []
    healthy: int = 0
    by_log: bool = False
    quiet_until: int = 0

    def complete(self, duration: int, record: Evidence, limits: SlownessThresholds) -> None:
        """Take in a completed checkpoint."""
        learned = len(self.usual) >= limits.min_history
        self.points = [*self.points, (record.time // 1000, duration)][-_HISTORY:]
        if learned and duration > self.limit(limits):
            self.add_slow(record, limits)
            return
        self.usual = [*self.usual, duration][-_HISTORY:]
        self.healthy += 1
        self.slow = []

    def gauge(self, value: float) -> int | None:
        """The duration of a new checkpoint that a value of the gauge shows, unless there are log lines."""
        duration = int(min(value, _MOST_MS))
        known = self.by_log or duration < 0 or (self.points and self.points[-1][1] == duration)
        return None if known else duration

    def add_slow(self, record: Evidence, limits: SlownessThresholds) -> None:
        """Take in a checkpoint that was slow or has expired."""
        self.healthy = 0
        if len(self.usual) >= limits.min_history and record.time >= self.quiet_until:
            self.slow = [*self.slow, record][-_MAX_SLOW:]

    def restart(self, time: int, limits: SlownessThresholds) -> None:
        """The job restarts and will have a backlog."""
        self.slow = []
        if self.by_log:
            self.quiet_until = max(self.quiet_until, time + limits.catch_up)

    def median(self) -> float:
        """The usual duration in ms, 0 if it is unknown."""
        return quantile(self.usual, 0.5) if self.usual else 0

    def limit(self, limits: SlownessThresholds) -> float:
        """The duration in ms above which a checkpoint is slow."""
        return max(limits.slow_checkpoint_min_duration, limits.slow_checkpoint_factor * quantile(self.usual, 0.5))
