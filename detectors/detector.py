"""What every detector is: a fold over the events of one cluster.

A detector keeps nothing but its config; all it knows is in its state, which the engine keeps as bytes. Time is an
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
"""Whose end ends a finding although its subject was never seen well again: `incidents/orphaned.py` sees to it."""


class DetectorConfig(BaseModel):
    """What every detector's section of the configuration has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(
        True, description="Off: it sees no event and forgets what it knew; what it has open is closed."
    )


class Now(NamedTuple):
    """The moment of one step: `clock` is the stream's clock, `time` the event time of the event at hand, both
    epoch ms.
    """

    clock: int
    time: int


class NoState(msgspec.Struct, array_like=True):
    """The state of a detector that remembers nothing."""


class Detector:
    """See the module. `event_types` are the meanings (or metric names) it is given; `kind` is also its module's name.

    `per_job`: it decides for each job by itself, asks `config_of` for that job's thresholds, and the subject of its
    findings is the job's id.

    `belongs_to`: a finding of a "job" ends when the job runs under another id, one of a "process" when its TaskManager
    has left and a checkpoint completed without it; one of the "cluster" outlives both. Each kind declares its own.
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
        """The config for a job, by its id; the empty id is that of no job."""
        return self.config if self._by_job is None else self._by_job(job)

    def initial(self) -> Any:
        """The state before the first event."""
        return self.State()

    def update(self, state: Any, event: Any, now: Now, topology: Topology) -> Iterable[Finding]:
        """Take in one event: a `LogEvent`, or a `MetricEvent` with only the samples it wants."""
        raise NotImplementedError

    def on_deadline(self, state: Any, now: int, topology: Topology) -> Iterable[Finding]:
        """What the clock alone brings, at the first whole second `now` ≥ `next_deadline(state)`."""
        return ()

    def on_config_change(self, state: Any, now: int, topology: Topology) -> Iterable[Finding]:
        """What another configuration makes of what is known, at the clock `now`; deadlines are asked for anew."""
        return ()

    def next_deadline(self, state: Any) -> int | None:
        """The clock time at which `on_deadline` is to be called; None when nothing is waited for."""
        return None

    def readings(self, state: Any, now: int, topology: Topology) -> Iterable[Reading]:
        """The numbers it works with; the engine adds the label `cluster`."""
        return ()


def evidence(event: LogEvent, time: int) -> Evidence:
    """The record of an event, as evidence."""
    return Evidence(event.topic, event.partition, event.offset, time, event.text)
