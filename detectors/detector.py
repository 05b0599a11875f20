"""The contract of all detectors: a fold over the facts and samples of one cluster.

A detector object has only its config. All that it learns is in its state, which the engine keeps as bytes. A handler is
a method marked with `on`. It gets a `View` of the moment and the fact or samples, changes the view's state, and reports
findings through the view. Kind and subject together identify a finding.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from detectors.events.event import Event, LogEvent, Sample
from detectors.flink import facts
from detectors.flink.checkpointing.checkpoints import JobCheckpoints
from detectors.flink.facts import Fact
from detectors.flink.throttling.containers import withheld
from detectors.flink.topology import Topology
from detectors.incident import Confidence, Evidence, Finding, Forecast, Reading, Series, Severity
from detectors.values.bounded import put_bounded

Owner = Literal["job", "process", "cluster"]
"""The owner of a finding: when it is gone, `incidents/orphaned.py` closes the finding."""

MAX_JOBS = 200
"""The jobs of one cluster that a detector keeps."""


class DetectorConfig(BaseModel):
    """Settings that every detector has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(
        True,
        description="Whether the detector is enabled. If it is disabled, its state is discarded and its open findings "
        "are closed.",
    )


def threshold(default: Any, description: str, **limits: Any) -> Any:
    """A setting of a detector. `limits` are pydantic's: gt, ge, lt, le."""
    return Field(default, description=description, **limits)


C = TypeVar("C", bound=DetectorConfig)
S = TypeVar("S")
J = TypeVar("J")
H = TypeVar("H", bound=Callable[..., None])


class View(Generic[C, S]):
    """A cluster at the moment of a handler's call.

    `clock` is the stream's clock, `time` the time of the event (without an event, the clock again), in epoch ms.
    `state` is the detector's own, `job` the id of the job that the line is about. `findings` are those reported and not
    yet taken by the engine. `deadlines` of jobs (or other keys) are as they were before those that handlers have `seen`
    since. The views `of_jobs` are kept, because making one takes longer than most handlers.
    """

    __slots__ = (
        *("clock", "config", "deadlines", "event", "findings", "job", "kind", "of_jobs", "seen", "state", "time"),
        "topology",
    )
    event: Event
    deadlines: dict[str, int] | None
    seen: set[str]
    of_jobs: dict[str, "JobView[Any, Any, Any]"]

    def __init__(self, kind: str, config: C, state: S, topology: Topology) -> None:
        self.kind = kind
        self.config = config
        self.state = state
        self.topology = topology
        self.clock = 0
        self.time = 0
        self.event = cast(Event, None)  # Handlers have one; deadlines, changes of settings and readings do not.
        self.job = ""
        self.findings: list[Finding] = []
        self.deadlines = None
        self.seen = set()
        self.of_jobs = {}

    @property
    def line(self) -> LogEvent:
        """The line, in a handler of facts."""
        return cast(LogEvent, self.event)

    def record(self, text: str = "") -> Evidence:
        """The record of the event as evidence. A scrape has no text of its own."""
        event = self.event
        own = event.text if isinstance(event, LogEvent) else ""
        return Evidence(event.topic, event.partition, event.offset, self.time, text or own)

    def finding(
        self,
        subject: str,
        entity: dict[str, str],
        *,
        since: int,
        severity: Severity,
        summary: str,
        evidence: Iterable[Evidence],
        advice: str,
        confidence: Confidence = "sure",
        forecast: Forecast | None = None,
        series: Series | None = None,
    ) -> Finding:
        """A finding of this kind as it is now."""
        return Finding(
            kind=self.kind,
            subject=subject,
            entity=entity,
            since=since,
            at=self.clock,
            severity=severity,
            summary=summary,
            confidence=confidence,
            evidence=list(evidence),
            forecast=forecast,
            series=series,
            advice=advice,
        )

    def report(self, finding: Finding) -> None:
        """Report a new or changed finding."""
        self.findings.append(finding)

    def close(self, finding: Finding, why: str) -> None:
        """Report that a finding has ended."""
        self.findings.append(msgspec.structs.replace(finding, at=self.clock, closed_at=self.clock, closed_because=why))

    def first_deadline(self, keys: Iterable[str], deadline: Callable[[str], int | None]) -> int | None:
        """The first deadline of all keys, such as jobs. After the first call only those `seen` since are asked again.

        `deadline` returns None for a key that has none, or that no longer exists.
        """
        if self.deadlines is None:
            self.deadlines = {}
            self.seen.update(keys)
        for key in self.seen:
            at = deadline(key)
            if at is None:
                self.deadlines.pop(key, None)
            else:
                self.deadlines[key] = at
        self.seen.clear()
        return min(self.deadlines.values(), default=None)

    def reading(self, name: str, value: float, at: int | None = None, **labels: str) -> Reading:
        """A reading taken at this clock, or at the time `at`."""
        return Reading(name=name, labels=labels, value=value, at=self.clock if at is None else at)


class JobView(View[C, S], Generic[C, S, J]):
    """The same for one job: `own` is the detector's state of the job, `config` has the thresholds of this job."""

    __slots__ = ("id", "own")

    def __init__(self, view: View[C, S], job: str, own: J) -> None:
        self.kind = view.kind
        self.config = view.config
        self.state = view.state
        self.topology = view.topology
        self.findings = view.findings
        self.seen = view.seen
        self.of_jobs = view.of_jobs
        self.id = self.job = job
        self.own = own

    def forget(self) -> None:
        """Drop the detector's state of this job."""
        jobs: dict[str, J] = cast(Any, self.state).jobs
        jobs.pop(self.id, None)

    @property
    def name(self) -> str:
        """The job's name, or the empty string."""
        return self.topology.job_name(self.id)

    @property
    def label(self) -> str:
        """The job's name, or its id where no line or sample names it: the label of its readings."""
        return self.name or self.id

    @property
    def checkpoints(self) -> JobCheckpoints:
        """The job's checkpoints."""
        return self.topology.checkpoints.get(self.id) or JobCheckpoints()

    def withheld(self, tm: str = "") -> str:
        """What RocksDB and Kubernetes withhold from the job, or from one TaskManager, to put behind a summary."""
        return withheld(self.topology, self.time, self.id, tm)

    def entity(self, **more: str) -> dict[str, str]:
        """The entity of a finding about this job."""
        return {"job_id": self.id, "job_name": self.name, **more}


class Handler(NamedTuple):
    """A method, the names of the lines and samples that it is called for, and the part of the state that it needs."""

    call: Callable[..., None]
    names: tuple[str, ...]
    job: Literal["known", "any", "none"]
    needs: str


def on(*wanted: type[Fact] | str, job: Literal["known", "any", "none"] = "known", needs: str = "") -> Callable[[H], H]:
    """Mark a handler of facts, or of samples by the names of `metric_names`.

    In a `JobDetector`, `job` states for which jobs it is called: those that it knows, any (which it then knows), or
    none: it is called once for the cluster. With `needs` it is called only while that part of the detector's state is
    not empty: most lines that end a finding come while there is none.
    """
    names = tuple(n for w in wanted for n in ([w] if isinstance(w, str) else facts.event_types(w)))

    def mark(method: H) -> H:
        _MARKED[method] = Handler(method, names, job, needs)
        return method

    return mark


_MARKED: dict[Callable[..., None], Handler] = {}


class NoState(msgspec.Struct, array_like=True):
    """The state of a detector that has none."""


class Detector:
    """See the module. `kind` is the name of the detector's module.

    A detector that overrides neither `next_deadline` nor `deadline` is not asked for deadlines (`has_deadlines`).
    `belongs_to`: findings of a "job" close when the job runs under another ID, those of a "process" when its
    TaskManager has left and a checkpoint completed without it. Those of the "cluster" outlive both.
    """

    kind: ClassVar[str]
    belongs_to: ClassVar[Owner] = "cluster"
    per_job: ClassVar[bool] = False
    Config: ClassVar[type[DetectorConfig]] = DetectorConfig
    State: ClassVar[type[Any]] = NoState
    handlers: ClassVar[dict[str, Handler]] = {}
    event_types: ClassVar[frozenset[str]] = frozenset()
    has_deadlines: ClassVar[bool] = False

    def __init_subclass__(cls, *, without_deadlines: bool = False) -> None:
        marked = [_MARKED[method] for method in vars(cls).values() if callable(method) and method in _MARKED]
        cls.handlers = {**cls.handlers, **{name: handler for handler in marked for name in handler.names}}
        cls.event_types = frozenset(cls.handlers)
        if not without_deadlines:
            cls.has_deadlines = cls.has_deadlines or not {"deadline", "next_deadline"}.isdisjoint(vars(cls))

    def __init__(self, config: Any, by_job: Callable[[str], Any] | None = None) -> None:
        self.config = config
        self._by_job = by_job

    def config_of(self, job: str) -> Any:
        """The config for a job ID; the empty ID means no job."""
        return self.config if self._by_job is None else self._by_job(job)

    def view(self, state: Any, topology: Topology) -> View[Any, Any]:
        """The view that this detector's handlers get."""
        return View(self.kind, self.config, state, topology)

    def fact(self, view: View[Any, Any], handler: Handler, fact: Fact) -> bool:
        """Handle what a line states. Returns False if that changes nothing."""
        handler.call(self, view, fact)
        return True

    def samples(self, view: View[Any, Any], samples: list[Sample]) -> None:
        """Handle those samples of a record that it subscribes to, in their order; each handler gets its own at once."""
        by_handler: dict[Handler, list[Sample]] = {}
        for sample in samples:
            by_handler.setdefault(self.handlers[sample.name], []).append(sample)
        for handler, own in by_handler.items():
            handler.call(self, view, own)

    def on_deadline(self, view: View[Any, Any]) -> None:
        """Do what is due without an event. Called at the first whole second of the clock ≥ `next_deadline`."""

    def next_deadline(self, view: View[Any, Any]) -> int | None:
        """The clock time at which `on_deadline` is to be called; None if there is no deadline."""
        return None

    def on_config_change(self, view: View[Any, Any]) -> None:
        """Report what a new configuration changes. Deadlines are asked for again afterwards."""

    def readings(self, view: View[Any, Any]) -> Iterable[Reading]:
        """The numbers that the detector works with; the engine adds the label `cluster`."""
        return ()


class JobStates(msgspec.Struct, Generic[J], array_like=True):
    """The state of a `JobDetector`: that of each job by id."""

    jobs: dict[str, J] = {}


class JobDetector(Detector, without_deadlines=True):
    """A detector that treats each job by itself, with the thresholds of that job. `Job` is the state of a job."""

    belongs_to = "job"
    per_job = True
    Job: ClassVar[type[Any]]

    def job(self, view: View[Any, Any], job: str) -> JobView[Any, Any, Any] | None:
        """The view of a job that the detector knows."""
        own = view.state.jobs.get(job)
        if own is None:
            return None
        view.seen.add(job)
        return self._of(view, job, own)

    def new_job(self, view: View[Any, Any], job: str) -> JobView[Any, Any, Any]:
        """The view of a job, which the detector knows from now on. The oldest job makes room for it."""
        known = self.job(view, job)
        if known is None:
            known = self._of(view, job, self.Job())
            out = put_bounded(view.state.jobs, job, known.own, MAX_JOBS)
            view.seen.update((job,) if out is None else (job, out[0]))
        return known

    def jobs(self, view: View[Any, Any]) -> Iterator[JobView[Any, Any, Any]]:
        """The views of all jobs that the detector knows."""
        for job, own in list(view.state.jobs.items()):
            view.seen.add(job)
            yield self._of(view, job, own)

    def fact(self, view: View[Any, Any], handler: Handler, fact: Fact) -> bool:
        """Handle what a line states, for the job that it is about. Returns False if that changes nothing."""
        if handler.job == "none":
            return super().fact(view, handler, fact)
        known = self.new_job(view, view.job) if handler.job == "any" else self.job(view, view.job)
        if known is None:
            return False
        handler.call(self, known, fact)
        return True

    def next_deadline(self, view: View[Any, Any]) -> int | None:
        """The first deadline of any job. Only jobs that were looked at since are asked again."""
        jobs = view.state.jobs

        def of_job(job: str) -> int | None:
            own = jobs.get(job)
            return None if own is None else self.deadline(self._of(view, job, own))

        return view.first_deadline(jobs, of_job)

    def on_deadline(self, view: View[Any, Any]) -> None:
        """Do what is due for each job."""
        for job in self.jobs(view):
            self.due(job)

    def readings(self, view: View[Any, Any]) -> Iterator[Reading]:
        """The numbers of all jobs."""
        for job in self.jobs(view):
            yield from self.job_readings(job)

    def deadline(self, job: Any) -> int | None:
        """The clock time at which something is due for a job."""
        return None

    def due(self, job: Any) -> None:
        """Do what is due for a job, if anything is."""

    def job_readings(self, job: Any) -> Iterable[Reading]:
        """The numbers of a job that the detector works with."""
        return ()

    def _of(self, view: View[Any, Any], job: str, own: Any) -> JobView[Any, Any, Any]:
        known = view.of_jobs.get(job)
        if known is None or known.own is not own:
            known = view.of_jobs[job] = JobView(view, job, own)
        known.config = self.config_of(job)
        known.clock, known.time, known.event = view.clock, view.time, view.event
        return known
