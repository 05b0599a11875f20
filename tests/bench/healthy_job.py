"""One healthy job of a made-up cluster: its input over the week, its backlog, and what its subtasks then measure.

The numbers agree with each other as in Flink: busy and backpressured times are averages over a minute, counters begin
at zero with each attempt, the lag is the age of the backlog, checkpoints are slower under load.
"""

import math
import random
from typing import NamedTuple

DAY_S = 86_400
PARTITIONS = 4
TASKS = ("Source: orders", "Window(TumblingEventTimeWindows(60000)) -> Map", "Sink: ledger")
_OUT_OF_ORDER_MS = 5_000
_AVERAGE_S = 60


class Profile(NamedTuple):
    """How a job behaves.

    `peak` is its input in records a second at noon of a working day, `night` and `weekend` are shares of it, and
    `sharp` makes the daily peak narrow. `took` is the usual duration of a checkpoint in ms, `noise` the spread of its
    logarithm, and `outliers` the share of checkpoints that take up to three times as long. `capacity` is the most it
    can read, as a multiple of `peak`.
    """

    name: str
    peak: float
    night: float
    weekend: float
    sharp: int
    took: float
    noise: float
    outliers: float
    capacity: float
    timed: bool
    every_s: int


PROFILES = (
    Profile("orders", 900, 0.2, 0.5, 1, 600, 0.3, 0.0, 2.0, True, 60),
    Profile("payments", 300, 0.0, 0.3, 2, 250, 0.4, 0.01, 3.0, True, 60),
    Profile("clicks", 8_000, 0.1, 1.2, 1, 2_500, 0.25, 0.02, 1.6, True, 60),
    Profile("audit", 2, 0.001, 0.01, 3, 90, 0.5, 0.02, 20.0, True, 60),
    Profile("prices", 4_000, 0.0, 0.0, 4, 1_200, 0.3, 0.01, 1.5, False, 60),
    Profile("inventory", 120, 0.5, 0.8, 1, 9_000, 0.2, 0.005, 2.5, True, 300),
    Profile("fraud", 1_500, 0.3, 0.7, 2, 4_000, 0.35, 0.03, 1.8, True, 60),
    Profile("mail", 0.05, 0.2, 0.2, 1, 60, 0.5, 0.03, 100.0, True, 60),
    Profile("search", 2_500, 0.15, 0.9, 2, 1_500, 0.35, 0.02, 1.4, False, 30),
    Profile("archive", 600, 0.6, 0.6, 1, 15_000, 0.3, 0.01, 2.2, False, 120),
)


class Subtask:
    """The metrics of one subtask, by the names that detectors use."""

    def __init__(self, vertex: int, index: int) -> None:
        self.vertex, self.index = vertex, index
        self.records_in = self.records_out = 0.0
        self.operator_records_in = self.operator_records_out = self.records_sent = 0.0
        self.busy_time = 1_000.0
        self.backpressured_time = self.is_backpressured = self.in_pool_usage = self.input_queue_length = 0.0
        self.input_watermark = self.output_watermark = -(2.0**63)
        self.event_time_lag = self.source_idle_time = self.pending_records = self.records_lag_max = 0.0
        self.commits_succeeded = self.commits_failed = 0.0
        self.kafka_connections = 3.0
        self.late_records = self.records_out_errors = self.records_send_errors = 0.0
        self.offset = self.committed_offset = 0.0

    def reset(self) -> None:
        """A new attempt begins; its offsets in Kafka are those of the one before."""
        offset, committed = self.offset, self.committed_offset
        self.__init__(self.vertex, self.index)  # type: ignore[misc]
        self.offset, self.committed_offset = offset, committed


class Job:
    """A job over its restarts and deployments; times are in seconds since the start of the week."""

    def __init__(self, profile: Profile, parallelism: int, chance: random.Random) -> None:
        self.profile, self.parallelism = profile, parallelism
        self._chance = chance
        self.name = f"{profile.name}-{chance.randrange(100)}"
        self._noon = DAY_S / 2 + chance.uniform(-2, 4) * 3_600
        self.id = ""
        self.runs = False
        self.deployment = 0
        self.attempt = 0
        self.number = 0
        self.backlog = 0.0
        self.read_until = 0.0
        self.state_size = 0.0
        self.catching_up = False
        self.load = 0.0
        self.restarts = 0.0
        self.full_restarts = 0.0
        self.completed_checkpoints = 0.0
        self.failed_checkpoints = 0.0
        self.checkpoints_in_progress = 0.0
        self.last_checkpoint_duration = self.last_checkpoint_size = self.last_checkpoint_full_size = 0.0
        self.subtasks: list[Subtask] = []

    def start(self, parallelism: int, *, restored: bool) -> None:
        """A new job of this name begins; its counters begin at zero."""
        self.id = f"{self._chance.getrandbits(128):032x}"
        self.parallelism = parallelism
        self.runs = True
        self.deployment += 1
        self.attempt = 0
        self.number = self.number if restored else 0
        self.restarts = self.full_restarts = self.completed_checkpoints = self.failed_checkpoints = 0.0
        self.last_checkpoint_duration = self.last_checkpoint_size = self.last_checkpoint_full_size = -1.0
        before = {(s.vertex, s.index): s for s in self.subtasks}
        self.subtasks = [Subtask(v, i) for v in range(len(TASKS)) for i in range(parallelism)]
        for one in self.subtasks:
            if (old := before.get((one.vertex, one.index))) is not None:
                one.offset, one.committed_offset = old.offset, old.committed_offset

    def recover(self) -> None:
        """The job runs again after a restart."""
        self.runs = True
        self.attempt += 1
        self.restarts += 1
        self.full_restarts += 1
        for one in self.subtasks:
            one.reset()

    def stop(self) -> None:
        """The job does not run; its input goes on."""
        self.runs = False
        self.checkpoints_in_progress = 0.0

    def rate(self, second: float) -> float:
        """Records a second that are written to its topic."""
        own = self.profile
        of_day = (second - self._noon) % DAY_S / DAY_S
        wave = ((1 + math.cos(2 * math.pi * of_day)) / 2) ** own.sharp
        week = own.weekend if int(second // DAY_S) % 7 >= 5 else 1.0
        return own.peak * week * (own.night + (1 - own.night) * wave if own.night or wave > 0.05 else 0.0)

    def tick(self, second: float, duration: float) -> None:
        """So many seconds pass until `second`."""
        written = self._count(self.rate(second) * duration * self._chance.uniform(0.85, 1.15))
        self.backlog += written
        if not self.runs:
            return
        most = self.profile.peak * self.profile.capacity * duration
        done = min(self.backlog, most)
        self.backlog -= done
        self.catching_up = self.backlog > 0.2 * most
        self.load = done / most
        rate = max(self.rate(second), 1e-9)
        lag = self.backlog / rate if self.catching_up else 0.0
        if done:
            self.read_until = second - lag
        # The windows of ten minutes that are open.
        self.state_size += (5e6 + 600 * 200 * done / duration - self.state_size) * min(1.0, duration / 600)
        self._measure(second, duration, done, lag)

    def took(self) -> int:
        """How long a checkpoint takes now, ms."""
        own = self.profile
        factor = math.exp(self._chance.gauss(0, own.noise)) * (0.7 + self.load * (3 if self.catching_up else 1))
        if self._chance.random() < own.outliers:
            factor *= self._chance.uniform(1.5, 3)
        return round(min(max(own.took * factor, 15), 700 * own.every_s))

    def completed(self, took: int) -> None:
        """A checkpoint has completed."""
        self.completed_checkpoints += 1
        self.checkpoints_in_progress = 0.0
        self.last_checkpoint_duration = float(took)
        self.last_checkpoint_size = self.last_checkpoint_full_size = float(round(self.state_size))
        for one in self.subtasks[: self.parallelism]:
            one.commits_succeeded += 1
            one.committed_offset = one.offset

    def _measure(self, second: float, duration: float, done: float, lag: float) -> None:
        share = min(1.0, duration / _AVERAGE_S)
        watermark = 1_000.0 * (_EPOCH_S + self.read_until) - _OUT_OF_ORDER_MS
        full = self.catching_up
        busy = (180.0, 1_000.0 if full else 950.0 * self.load, 400.0 * self.load)
        for one in self.subtasks:
            part = float(round(done / self.parallelism * self._chance.uniform(0.95, 1.05))) if done > 10 else 0.0
            if not part and done and one.index == int(second) % self.parallelism:
                part = done
            vertex = one.vertex
            one.busy_time += (busy[vertex] * self._chance.uniform(0.9, 1.0) - one.busy_time) * share
            waits = 700.0 if full and vertex == 0 else 0.0
            one.backpressured_time += (waits - one.backpressured_time) * share
            one.is_backpressured = float(one.backpressured_time > 500)
            one.in_pool_usage = 1.0 if full and vertex == 1 else round(0.3 * self.load, 2)
            one.input_queue_length = 10.0 if full and vertex == 1 else float(round(4 * self.load))
            one.records_in += part if vertex else 0.0
            one.records_out += part if vertex < len(TASKS) - 1 else 0.0
            if self.profile.timed and self.read_until:
                one.input_watermark = one.output_watermark = watermark
            if vertex == 0:
                one.operator_records_in += part
                one.operator_records_out += part
                one.offset += part
                waiting = self.backlog / self.parallelism
                one.pending_records = float(round(waiting))
                one.records_lag_max = float(round(waiting / 2))
                if part:
                    one.source_idle_time = 0.0
                    one.event_time_lag = lag * 1_000 + self._chance.uniform(50, 900)
                else:
                    one.source_idle_time += 1_000 * duration
            elif vertex == len(TASKS) - 1:
                one.records_sent += part

    def _count(self, expected: float) -> float:
        """A whole number of records, at random if they are few."""
        if expected > 30:
            return float(round(expected))
        found, product, limit = 0, self._chance.random(), math.exp(-expected)
        while product > limit:
            found += 1
            product *= self._chance.random()
        return float(found)


_EPOCH_S = 1_700_438_400
START = 1_000 * _EPOCH_S
"""Monday, 2023-11-20, 00:00 UTC, in epoch ms."""
