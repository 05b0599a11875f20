"""The builder of all detectors' tests: what Flink writes and measures, in order, and what a detector reports of it.

    story("checkpoint_overdue").job("orders").checkpoints(6, every="10 s", lasting="20 ms").triggered().transitions()

The story has a clock of its own: `gap` moves it on, `at` sets it, and every verb takes `at=` as well. Times are ms
after START, or texts such as "90 s" and "1 h 30 min". Only the kinds that are named work; `KINDS` are all of them.
"""

import re
from collections.abc import Callable
from itertools import count
from typing import Any, Self

import msgspec

from detectors import DETECTORS
from detectors.detector import Detector
from detectors.events.event import Event, LogEvent, MetricEvent, Sample
from detectors.events.layouts import stack_line
from detectors.events.names import filtered
from detectors.flink.facts import fact_of
from detectors.flink.stack_traces import StackTraces
from detectors.flink.topology import Topology
from detectors.incident import Finding, Transition
from tests.unit.detectors.streams import START, alone, in_order, log, run

JOB, OTHER = "a" * 32, "b" * 32
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
KINDS = tuple(d.kind for d in DETECTORS)

Time = int | str
Thrown = tuple[str, str, str]
"""A throwable: its class, its message, and one frame of the user's own or nothing."""
USER: Thrown = ("java.lang.IllegalStateException", "cannot parse order 17", "com.example.Parse.map(Parse.java:28)")
PLANNED: Thrown = ("org.apache.flink.util.FlinkExpectedException", "The TaskExecutor is shutting down.", "")
LOST: Thrown = ("java.util.concurrent.TimeoutException", "The heartbeat of TaskManager with id tm-1:1-a timed out.", "")
NO_SLOTS: Thrown = (
    "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException",
    "Could not acquire the minimum required resources.",
    "",
)

_UNITS = {"ms": 1, "s": SECOND, "min": MINUTE, "h": HOUR, "d": 24 * HOUR}


def ms(time: Time) -> int:
    """A time in ms.

    >>> ms("1 min 30 s"), ms("20 ms"), ms(7)
    (90000, 20, 7)
    """
    if isinstance(time, int):
        return time
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+) ?(ms|s|min|h|d)\b", time))


class Story:
    """See the module. Each verb adds lines or samples and returns the story; `transitions` replays all of it."""

    def __init__(self, *kinds: str) -> None:
        assert set(kinds) <= set(KINDS), kinds
        assert kinds, "which kinds does the story test?"
        self.events: list[Event] = []
        self.kinds = kinds
        self._now = 0
        self._offsets = count()
        self._number = 0
        self._source, self._host = "jm", "jm"
        self._job, self._name = JOB, "orders"

    def at(self, time: Time) -> Self:
        """What follows happens at this time."""
        self._now = ms(time)
        return self

    def gap(self, time: Time) -> Self:
        """Nothing happens for so long."""
        self._now += ms(time)
        return self

    def by(self, source: str, host: str = "") -> Self:
        """What follows is written by this process; a story begins with the JobManager `jm`, each on its own host."""
        self._source, self._host = source, host or source
        return self

    def job(self, name: str = "orders", job: str = JOB) -> Self:
        """What follows is about this job."""
        self._name, self._job = name, job
        return self

    def line(
        self,
        meaning: str,
        at: Time | None = None,
        *,
        source: str = "",
        lag: Time = 100,
        offset: int = -1,
        zone: int = 0,
        text: str = "",
        timeless: bool = False,
        **fields: str,
    ) -> Self:
        """One line, which reaches Kafka `lag` after it was written and prints a time `zone` ms from UTC, or none."""
        offset = next(self._offsets) if offset < 0 else offset
        line = log(meaning, self._time(at), offset, source or self._source, ms(lag), **fields)
        line.host, line.local_time = source or self._host, -1 if timeless else line.local_time + zone
        line.text = text or line.text
        return self.add(line)

    def scrape(self, *samples: Sample, at: Time | None = None, source: str = "m", host: str = "h") -> Self:
        """Samples taken at once."""
        time = START + self._time(at)
        where = ("flink.metrics", 0, next(self._offsets))
        return self.add(MetricEvent("c", source, host, time + 50, time, *where, list(samples)))

    def measure(self, name: str, value: float, at: Time | None = None, **labels: str) -> Self:
        """One sample, alone in its record."""
        return self.scrape(Sample(name, labels, value), at=at)

    def heap(
        self,
        used: float,
        spent: float,
        old: int,
        at: Time | None = None,
        *,
        collector: str = "PS_MarkSweep",
        tm: str = "tm-1:6122-aaaaaa",
    ) -> Self:
        """One scrape of a TaskManager's heap: MB in use of 1000, ms in collections so far, and how many."""
        labels = {"tm_id": filtered(tm)}
        collected = {**labels, "collector": collector}
        return self.scrape(
            Sample("heap_max", labels, 1e9),
            Sample("heap_used", labels, used * 1e6),
            Sample("gc_time", collected, spent),
            Sample("gc_count", collected, old),
            at=at,
        )

    def state(
        self, new: str, before: str = "RUNNING", at: Time | None = None, *, job: str = "", name: str = ""
    ) -> Self:
        """The job's state changes."""
        about = {"job": job or self._job, "name": name or self._name}
        return self.line("job_state", at, **about, before=before, state=new)

    def runs(self, at: Time | None = None, *, job: str = "", name: str = "") -> Self:
        """The job begins to run."""
        return self.state("RUNNING", "CREATED", at, job=job, name=name)

    def triggered(
        self, number: int | None = None, at: Time | None = None, *, kind: str = "CHECKPOINT", job: str = "", **line: Any
    ) -> Self:
        """A checkpoint is triggered, by default the next one."""
        self._number = self._number + 1 if number is None else number
        epoch = str(START + self._time(at))
        return self._of_checkpoint("checkpoint_triggered", None, at, job, type=kind, epoch=epoch, **line)

    def completed(
        self,
        number: int | None = None,
        at: Time | None = None,
        *,
        lasting: Time = 100,
        size: int = 1,
        job: str = "",
        **line: Any,
    ) -> Self:
        """A checkpoint completes, by default the one that was triggered last."""
        took = {"duration": str(ms(lasting)), "bytes": str(size)}
        return self._of_checkpoint("checkpoint_completed", number, at, job, **took, **line)

    def expired(self, number: int | None = None, at: Time | None = None, *, job: str = "") -> Self:
        """A checkpoint expires, by default the one that was triggered last."""
        return self._of_checkpoint("checkpoint_expired", number, at, job)

    def checkpoint(self, lasting: Time = 100, *, size: int = 1, kind: str = "CHECKPOINT", job: str = "") -> Self:
        """The next checkpoint is triggered now and completes; the story's clock stays where it is."""
        self.triggered(kind=kind, job=job)
        return self.completed(at=self._now + ms(lasting), lasting=lasting, size=size, job=job)

    def checkpoints(self, count: int, every: Time, lasting: Time = 100, *, size: int = 1, job: str = "") -> Self:
        """So many checkpoints, the first one now; the clock then is where the next one would be triggered."""
        for _ in range(count):
            self.checkpoint(lasting, size=size, job=job).gap(every)
        return self

    def stack(self, *chain: Thrown, at: Time | None = None) -> Self:
        """A throwable with its causes, each line in a record of its own and without a time."""
        for number, (name, message, frame) in enumerate(chain):
            caused = {"caused": "yes"} if number else {}
            self.line(stack_line.THROWN, at, timeless=True, **{"class": name, "message": message}, **caused)
            if frame:
                self.line(stack_line.FRAME, at, timeless=True, frame=frame)
        return self

    def sent_again(self, after: Time, *, only: Callable[[LogEvent], bool] = lambda _: True) -> Self:
        """The shipper sends the lines so far, or some of them, again: they reach Kafka a second time, `after` later."""
        return self.add(
            *(
                msgspec.structs.replace(e, timestamp=e.timestamp + ms(after), offset=next(self._offsets))
                for e in self.events[:]
                if isinstance(e, LogEvent) and only(e)
            )
        )

    def task_failed(
        self, *chain: Thrown, at: Time | None = None, subtask: int = 1, attempt: str = "", **place: str
    ) -> Self:
        """A task goes to FAILED, and why."""
        task = {"task": "map", "subtask": str(subtask), "parallelism": "2", "before": "RUNNING", "state": "FAILED"}
        self.line("task_state", at, **task, attempt=attempt or f"{self._time(at):032x}", **place)
        return self.stack(*chain, at=at)

    def restart(self, *chain: Thrown, at: Time | None = None, job: str = "", delay: Time = 500) -> Self:
        """A task fails and the job restarts, as Flink 1.10 and later write it."""
        time = self._time(at)
        self.task_failed(*chain, at=time).line("tasks_restarting", time + 1, failed=f"{time:032x}")
        self.state("RESTARTING", at=time + 1, job=job)
        return self.state("RUNNING", "RESTARTING", at=time + 1 + ms(delay), job=job)

    def add(self, *events: Event) -> Self:
        """Events that no verb makes."""
        self.events += events
        return self

    def and_also(self, *others: "Story") -> Self:
        """What other stories have, each with offsets of its own."""
        return self.add(*(event for other in others for event in other.events))

    def transitions(
        self, until: Time = HOUR, *, after: Time | None = None, cuts: tuple[int, ...] = ()
    ) -> list[Transition]:
        """The transitions of a replay; the clock runs on to `until`, or for so long `after` the last event."""
        events = in_order(self.events)
        end = START + ms(until) if after is None else events[-1].timestamp + ms(after)
        return run(events, cuts, end, alone(*self.kinds))

    def opened(self, until: Time = HOUR, *, after: Time | None = None) -> list[str]:
        """The causes of the incidents that are opened."""
        return [t.cause for t in self.transitions(until, after=after) if t.transition == "opened"]

    def _time(self, at: Time | None) -> int:
        return self._now if at is None else ms(at)

    def _of_checkpoint(self, meaning: str, number: int | None, at: Time | None, job: str, **line: Any) -> Self:
        number = self._number if number is None else number
        return self.line(meaning, at, checkpoint=str(number), job=job or self._job, **line)


class Followed(Story):
    """A story that one detector gets line by line, without the engine: its findings, its state, its readings."""

    def __init__(self, kind: str, **config: Any) -> None:
        super().__init__(kind)
        made = next(d for d in DETECTORS if d.kind == kind)
        self.detector: Detector = made(made.Config(**config))
        self.topology = Topology()
        self._throwables = StackTraces()
        self.view = self.detector.view(self.detector.State(), self.topology)

    def add(self, *events: Event) -> Self:
        """Each is given to the detector at once, as the engine would: a line, then the failure that it adds to."""
        for event in events:
            self.view.clock = event.timestamp
            if isinstance(event, LogEvent):
                self.view.time = event.local_time if event.local_time >= 0 else event.timestamp
                self._take(event)
                if (failure := self._throwables.join(event)) is not None:
                    self._take(failure)
            else:
                self.view.event, self.view.job, self.view.time = event, "", event.time
                self.detector.samples(self.view, [s for s in event.samples if s.name in self.detector.handlers])
        return super().add(*events)

    def _take(self, line: LogEvent) -> None:
        self.view.event, self.view.job = line, self.topology.job_of(line)
        fact = fact_of(line)
        fact = self.topology.update(line, fact, line.timestamp, self.view.time) if fact else None
        handler = self.detector.handlers.get(line.event_type)
        if fact and handler and (not handler.needs or getattr(self.view.state, handler.needs)):
            self.detector.fact(self.view, handler, fact)

    def until(self, time: Time) -> Self:
        """The clock runs on to this time."""
        self.view.clock = self.view.time = START + ms(time)
        due = self.detector.next_deadline(self.view)
        if due is not None and due <= self.view.clock:
            self.detector.on_deadline(self.view)
        return self

    def findings(self) -> list[Finding]:
        """The findings since the last call."""
        found, self.view.findings[:] = [*self.view.findings], []
        return found

    def readings(self) -> dict[str, float]:
        """The detector's numbers now, by name."""
        clock = max((event.timestamp for event in self.events), default=START)
        self.view.clock = clock
        return {r.name: r.value for r in self.detector.readings(self.view)}


def story(*kinds: str) -> Story:
    """A story that only the detectors of these kinds hear."""
    return Story(*kinds)


def follow(kind: str, **config: Any) -> Followed:
    """A story that one detector gets line by line, under these settings."""
    return Followed(kind, **config)
