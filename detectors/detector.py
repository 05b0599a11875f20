"""The base class of all detectors: a fold over the events of one cluster.

A detector object has only its config. All that it learns is in its state, which the engine keeps as bytes. Time is an
argument. `update` and `on_deadline` change the state they are given and yield findings: a new one, a changed one, or
one with `closed_at` set. Kind and subject together identify a finding.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from detectors.events.event import LogEvent
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Reading

Owner = Literal["job", "process", "cluster"]
"""The owner of a finding: when it is gone, `incidents/orphaned.py` closes the finding."""


class DetectorConfig(BaseModel):
    """Settings that every detector has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(
        True,
        description="Whether the detector is enabled. If it is disabled, its state is discarded and its open findings "
        "are closed.",
    )


class Now(NamedTuple):
    """The time of an event in epoch ms: `clock` is the stream's clock, `time` the event time."""

    clock: int
    time: int


class NoState(msgspec.Struct, array_like=True):
    """The state of a detector that has none."""


class Detector:
    """`event_types` are the event types and metric names that it subscribes to; `kind` is its module's name.

    If `per_job` is set, the detector treats each job separately, asks `config_of` for the job's thresholds, and the
    subject of its findings is the job's ID.

    `belongs_to`: findings of a "job" close when the job runs under another ID, those of a "process" when its
    TaskManager has left and a checkpoint completed without it. Those of the "cluster" outlive both.
    """

    kind: ClassVar[str]
    belongs_to: ClassVar[Owner] = "cluster"
    per_job: ClassVar[bool] = False
    event_types: ClassVar[frozenset[str]] = frozenset()
    Config: ClassVar[type[DetectorConfig]] = DetectorConfig
    State: ClassVar[type[Any]] = NoState

    def __init__(self, config: Any, by_job: Callable[[str], Any] | None = None) -> None:
        self.config = config
        self._by_job = by_job

    def config_of(self, job: str) -> Any:
        """The config for a job ID; the empty ID means no job."""
        return self.config if self._by_job is None else self._by_job(job)

    def initial(self) -> Any:
        return self.State()

    def update(self, state: Any, event: Any, now: Now, topology: Topology) -> Iterable[Finding]:
        """Process one event: a `LogEvent`, or a `MetricEvent` with only the samples it subscribes to."""
        raise NotImplementedError

    def on_deadline(self, state: Any, now: int, topology: Topology) -> Iterable[Finding]:
        """The findings due without an event. Called at the first whole second `now` ≥ `next_deadline(state)`."""
        return ()

    def on_config_change(self, state: Any, now: int, topology: Topology) -> Iterable[Finding]:
        """The findings that a new configuration changes at the clock `now`. Deadlines are then asked for again."""
        return ()

    def next_deadline(self, state: Any) -> int | None:
        """The clock time at which `on_deadline` is to be called; None if there is no deadline."""
        return None

    def readings(self, state: Any, now: int, topology: Topology) -> Iterable[Reading]:
        """The numbers that the detector works with; the engine adds the label `cluster`."""
        return ()


def evidence(event: LogEvent, time: int) -> Evidence:
    return Evidence(event.topic, event.partition, event.offset, time, event.text)
