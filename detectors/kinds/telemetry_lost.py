"""Something that wrote regularly has stopped, and nothing says that it was meant to.

Regular are a process's metrics (after `min_history` scrapes) and a job's checkpoint lines. Silent is one that is quiet
for `gap_factor` × its usual longest gap and at least `min_gap`. What is said depends on what else goes on:

- one TaskManager: while others are heard and the JobManager still counts it, or its log says nothing of an end
- one JobManager: while TaskManagers are heard, no other JobManager is, and no checkpoint line comes
- all metrics: while checkpoint lines of the cluster go on; then it is the way of the metrics, not Flink
- a job's log: while its counter of completed checkpoints goes on; then it is the way of the log
- the whole cluster, the likeliest reason being the way from there to Kafka (`input_silent`)

Not said: an orderly end (SIGTERM, the end of the job or of the cluster, a TaskManager that was closed or that another
has replaced: `taskmanager_lost` is the better choice for those that are lost), a cluster without a running job, and
checkpoint lines that stop while one is in flight (`checkpoint_overdue`). As info, which alone is not told: clusters
known by logs only or by metrics only, where no end could be seen. Ends when it is heard again, or with its end.

Why an operator cares: what is not heard is not watched. Post-mortem 000: scrapes stopped, minutes later the process
was lost.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now
from detectors.events.event import LogEvent, MetricEvent
from detectors.events.vocabulary.metric_names import filtered
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Reading, Severity
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX = 400
_GAPS = 8
_SAME_SCRAPE_MS = 500
_ACTIVE = frozenset({"CREATED", "RUNNING", "RESTARTING", "FAILING", "INITIALIZING", "RECONCILING"})
_OVER = frozenset({"FINISHED", "CANCELED", "CANCELLING", "FAILED", "SUSPENDED"})
_METRICS, _CLUSTER = "all metrics", "the whole cluster"
_AGAIN = "it is heard again"


class Signal(msgspec.Struct, array_like=True):
    """Something regular: the clock when last heard, event time then, last gaps in ms, and its last record.

    `checked`: the clock when its silence was last judged. `count` is a job's counter of completed checkpoints at its
    last line and `missed_checkpoints` the counter now (-1: unknown); `busy`: a checkpoint is in flight.
    """

    last: int
    time: int
    gaps: list[int]
    record: tuple[str, int, int]
    tm: str = ""
    host: str = ""
    checked: int = 0
    count: int = -1
    counted: int = -1
    busy: bool = False

    def hear(self, clock: int, time: int, record: tuple[str, int, int]) -> None:
        """Heard at `clock`; `time` tells a new scrape from another part of the last, or from one that comes late."""
        if time - self.time >= _SAME_SCRAPE_MS:
            self.gaps = [*self.gaps, time - self.time][-_GAPS:]
            self.time, self.record = time, record
        self.last = max(self.last, clock)


class LostSignal(msgspec.Struct, array_like=True):
    """An open finding: what is silent, since when (event time), the sentence, and the last record."""

    since: int
    summary: str
    record: Evidence
    severity: Severity
    tm: str = ""
    host: str = ""
    job: str = ""


class TelemetryLost(Detector):
    """See the module."""

    kind = "telemetry_lost"
    event_types = frozenset(
        [
            *("heap_used", "metaspace_used", "records_in", "busy_time"),
            *("jm_heap_used", "registered_task_managers", "completed_checkpoints", "task_slots_total"),
            *("checkpoint_triggered", "checkpoint_completed", "checkpoint_expired", "checkpoint_declined"),
            *("checkpoint_failed", "job_state", "job_ended", "task_state", "process_signalled", "cluster_ending"),
            *("tm_registered", "tm_closed", "tm_unreachable", "tm_timed_out", "tm_terminated"),
        ]
    )

    class Config(DetectorConfig):
        """Thresholds of silence."""

        gap_factor: float = Field(
            5.0,
            ge=2,
            description="Silent after this multiple of the usual longest gap.",
        )
        min_gap: Duration = Field(
            60_000,
            description="Never silent before: Flink itself waits 50 s for a heartbeat, shippers flush in 30 s.",
        )
        cluster_min_gap: Duration = Field(
            300_000,
            description="A whole cluster is never silent before: it was removed without a word, or agents restart.",
        )
        min_history: int = Field(6, ge=3, le=8, description="Gaps between samples or lines that make a source regular.")
        missed_checkpoints: int = Field(
            3, ge=1, description="Checkpoints the metrics count after the last line that prove that lines are missing."
        )
        forget_after: Duration = Field(
            3_600_000, description="What is silent this long without being said is forgotten."
        )

    class State(msgspec.Struct, array_like=True):
        """Voices: `processes` by "tm|id" or "jm|host", `logs` by job id. `said` by what is silent.

        `heard` is the clock of the last log line, `registered` the JobManager's count of TaskManagers and its clock.
        """

        processes: dict[str, Signal] = {}
        logs: dict[str, Signal] = {}
        said: dict[str, LostSignal] = {}
        heard: int = 0
        registered: tuple[int, int] = (-1, 0)
        tm_registered: int = 0

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Hear a sample or a line; an end that is told is no silence."""
        if isinstance(event, MetricEvent):
            yield from self._measured(state, event, now, topology)
            return
        state.heard = max(state.heard, now.clock)
        yield from self._close(state, [_CLUSTER], _AGAIN, now.clock, topology)
        match event.event_type:
            case "process_signalled":
                yield from self._signalled(state, event, now, topology)
            case "cluster_ending":
                yield from self._forget_all(state, "the cluster has ended", now, topology)
            case "tm_registered":
                state.tm_registered = max(state.tm_registered, now.clock)
            case "tm_closed" | "tm_unreachable" | "tm_timed_out" | "tm_terminated":
                tm = event.fields.get("tm") or event.fields.get("address", "")
                yield from self._forget(state, [f"tm|{filtered(tm)}"], "Flink itself tells of its end", now, topology)
            case "job_state" | "job_ended" | "task_state":
                yield from self._changed(state, event, now, topology)
            case _:
                yield from self._line(state, event, now, topology)

    def expire(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Judge what has been quiet for too long."""
        late = [k for k, v in state.processes.items() if self._due(v) is not None and now >= (self._due(v) or 0)]
        for key in late:
            voice = state.processes[key]
            voice.checked = now
            if now - voice.last > self.config.forget_after and key not in state.said:
                del state.processes[key]
        yield from self._judge([k for k in late if k in state.processes], state, now, topology)
        for job, voice in list(state.logs.items()):
            if now >= (self._due(voice) or now + 1):
                voice.checked = now
                yield from self._judge_log(state, job, voice, now, topology)

    def due(self, state: State) -> int | None:
        """When the first regular voice has been quiet for too long."""
        dues = (self._due(v) for voices in (state.processes, state.logs) for v in voices.values())
        return min((d for d in dues if d is not None), default=None)

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """When each process was last sampled (an age is for the one who asks), and each job's log last heard."""
        for key, voice in state.processes.items():
            labels = {"process": voice.tm or key.partition("|")[2]}
            yield Reading(name="last_sample_timestamp_seconds", labels=labels, value=voice.last / 1000, at=now)
        for job, voice in state.logs.items():
            labels = {"job": topology.job_name(job) or job}
            yield Reading(name="last_log_line_timestamp_seconds", labels=labels, value=voice.last / 1000, at=now)

    def _due(self, voice: Signal) -> int | None:
        if len(voice.gaps) < self.config.min_history:
            return None
        return max(voice.last + self._limit(voice), voice.checked + self.config.min_gap if voice.checked else 0)

    def _limit(self, voice: Signal) -> int:
        return max(self.config.min_gap, round(self.config.gap_factor * max(voice.gaps)))

    def _measured(self, state: State, event: MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        places: dict[str, tuple[str, str]] = {}
        for sample in event.samples:
            tm, host = sample.labels.get("tm_id", ""), sample.labels.get("host", event.host)
            places.setdefault(f"tm|{filtered(tm)}" if tm else f"jm|{host}", (tm, host))
            if sample.name == "registered_task_managers" and now.clock >= state.registered[1]:
                state.registered = (_whole(sample.value), now.clock)
            elif sample.name == "completed_checkpoints":
                self._counted(state, sample.labels.get("job_id", ""), _whole(sample.value))
        record = (event.topic, event.partition, event.offset)
        for key, (tm, host) in places.items():
            voice = state.processes.get(key)
            if voice is None:
                put_bounded(state.processes, key, Signal(now.clock, event.time, [], record, tm, host), _MAX)
            else:
                voice.hear(now.clock, event.time, record)
                voice.checked = 0
        if places and state.said:
            yield from self._close(state, [*places, _METRICS, _CLUSTER], _AGAIN, now.clock, topology)

    def _counted(self, state: State, job: str, value: int) -> None:
        voice = state.logs.get(job)
        if voice is not None:
            voice.counted = value
            if voice.count < 0 or value < voice.count:
                voice.count = value

    def _line(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        job = topology.job_of(event)
        record = (event.topic, event.partition, event.offset)
        voice = state.logs.get(job)
        if voice is None:
            voice = Signal(now.clock, now.time, [], record, host=event.host)
            put_bounded(state.logs, job, voice, _MAX)
        # Pairs of lines are no rhythm: only triggers are.
        if event.event_type == "checkpoint_triggered":
            voice.hear(now.clock, now.time, record)
        voice.last = max(voice.last, now.clock)
        voice.busy = event.event_type == "checkpoint_triggered"
        voice.count, voice.checked = voice.counted, 0
        yield from self._close(state, [f"log|{job}"], _AGAIN, now.clock, topology)

    def _changed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """A job that ends, restarts or whose first tasks have finished need not write checkpoint lines any more."""
        job = topology.job_of(event)
        new = event.fields.get("state", "")
        if event.event_type == "task_state" and new != "FINISHED":
            return
        yield from self._close(state, [f"log|{job}"], f"the job is {new}", now.clock, topology)
        state.logs.pop(job, None)
        if new in _OVER and not self._running(state, topology):
            # Whoever exports the metrics of tasks only falls silent now, and TaskManagers may be released.
            yield from self._forget_all(state, "no job is running", now, topology)

    def _signalled(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """A signal to a TaskManager ends that one, or those of its host; to any other process, the cluster."""
        tm = topology.tm_of_source.get(event.source)
        tms = [tm] if tm else [t for t, known in topology.tms.items() if known.host and known.host == event.host]
        if tms:
            yield from self._forget(state, [f"tm|{filtered(t)}" for t in tms], "it was told to stop", now, topology)
        else:
            yield from self._forget_all(state, "the cluster was told to stop", now, topology)

    def _forget(self, state: State, keys: list[str], why: str, now: Now, topology: Topology) -> Iterator[Finding]:
        for key in keys:
            state.processes.pop(key, None)
        yield from self._close(state, keys, why, now.clock, topology)

    def _forget_all(self, state: State, why: str, now: Now, topology: Topology) -> Iterator[Finding]:
        state.logs.clear()
        yield from self._forget(state, [*state.processes, *list(state.said)], why, now, topology)

    def _running(self, state: State, topology: Topology) -> bool:
        return bool(state.logs) or any(job.state in _ACTIVE for job in topology.jobs.values())

    def _judge(self, late: list[str], state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Processes that are silent: some of them, or all at once."""
        if not late or not self._running(state, topology):
            return
        heard = {k for k, v in state.processes.items() if now - v.last <= self._fresh(v)}
        if heard:
            for key in late:
                found = self._lone(key, heard, state, now, topology)
                if found is None:
                    yield from self._close(state, [key], "another has taken its place", now, topology)
                    del state.processes[key]
                else:
                    yield from self._say(state, key, state.processes[key], *found, now, topology)
            return
        last = max((state.processes[k] for k in late), key=lambda v: v.last)
        count = len(state.processes)
        processes = f"its {count} processes" if count > 1 else "its only process"
        what = f"no metrics of {processes} for {humanize(now - last.last)} (usually every {humanize(_usual(last))})"
        if state.heard > last.last + self.config.min_gap // 2:
            said = f"{what}, while log lines of the cluster go on: the metrics have lost their way"
            yield from self._say(state, _METRICS, last, said, "warning", now, topology)
        elif _METRICS not in state.said and now - last.last >= self.config.cluster_min_gap:
            said = f"input_silent: {what}, and no log line either: nothing arrives of this cluster any more"
            yield from self._say(state, _CLUSTER, last, said, "warning" if state.heard else "info", now, topology)

    def _fresh(self, voice: Signal) -> int:
        return max(self.config.min_gap // 2, 2 * max(voice.gaps, default=0))

    def _lone(
        self, key: str, heard: set[str], state: State, now: int, topology: Topology
    ) -> tuple[str, Severity] | None:
        """What to say of one silent process while others are heard; None when it has been replaced."""
        voice = state.processes[key]
        quiet = f"no metrics for {humanize(now - voice.last)} (usually every {humanize(_usual(voice))})"
        goes_on = any(v.last > voice.last + self.config.min_gap // 2 for v in state.logs.values())
        alike = [k for k in heard if k[:3] == key[:3]]
        if key.startswith("jm|"):
            if alike:
                return None
            said = f"JobManager {voice.host}: {quiet}, and no checkpoint line, while {len(heard)} other processes go on"
            return said, "info" if goes_on else "warning"
        if state.tm_registered > voice.last or any(_first(state.processes[k]) > voice.time for k in alike):
            return None
        counted, at = state.registered
        said = f"TaskManager {_id(voice, topology)}: {quiet} while {len(heard)} other processes go on"
        if at > voice.last + self.config.min_gap // 2:
            known = counted > len(alike)
            return f"{said}; the JobManager still counts it" if known else said, "warning" if known else "info"
        return f"{said}; the JobManager's log says nothing of an end", "warning" if goes_on else "info"

    def _judge_log(self, state: State, job: str, voice: Signal, now: int, topology: Topology) -> Iterator[Finding]:
        missing = voice.counted - voice.count if voice.count >= 0 else 0
        quiet = f"no checkpoint line of {topology.job_name(job) or job} for {humanize(now - voice.last)}"
        if missing >= self.config.missed_checkpoints:
            said = f"{quiet}, while the metrics count {missing} completed checkpoints: its log has lost its way"
            yield from self._say(state, f"log|{job}", voice, said, "warning", now, topology, job)
        elif not state.processes and not voice.busy and state.heard <= voice.last <= now - self.config.cluster_min_gap:
            said = f"{quiet} (usually every {humanize(_usual(voice))}), and nothing else arrives of this cluster"
            yield from self._say(state, _CLUSTER, voice, said, "info", now, topology, job)

    def _say(
        self,
        state: State,
        key: str,
        voice: Signal,
        summary: str,
        severity: Severity,
        now: int,
        topology: Topology,
        job: str = "",
    ) -> Iterator[Finding]:
        before = state.said.get(key)
        if before is not None and severity in (before.severity, "info"):
            return
        tm = _id(voice, topology)
        record = Evidence(*voice.record, voice.time, "the last record before the silence")
        whole = key in (_METRICS, _CLUSTER)
        said = LostSignal(
            voice.time,
            summary,
            record,
            severity,
            "" if whole else tm,
            "" if whole else topology.host_of(tm) or voice.host,
            job,
        )
        put_bounded(state.said, key, said, _MAX)
        yield self._finding(key, said, now, topology)

    def _close(self, state: State, keys: list[str], why: str, now: int, topology: Topology) -> Iterator[Finding]:
        for key in keys:
            said = state.said.pop(key, None)
            if said is not None:
                finding = self._finding(key, said, now, topology)
                finding.closed_at, finding.closed_because = now, why
                yield finding

    def _finding(self, key: str, said: LostSignal, now: int, topology: Topology) -> Finding:
        return Finding(
            kind=self.kind,
            subject=key,
            entity={
                "tm_id": said.tm,
                "host": said.host,
                "job_id": said.job,
                "job_name": topology.job_name(said.job) if said.job else "",
            },
            since=said.since,
            at=now,
            severity=said.severity,
            summary=said.summary,
            confidence="fair",
            evidence=[said.record],
            advice="See whether the process still runs and answers (Flink's UI, its pod or container, its host), then "
            "whether its metrics or log lines still reach Kafka: the agent, the shipper, the topic. If other clusters "
            "are silent as well, it is the way to Kafka. Until then nothing that happens there is seen here.",
        )


def _id(voice: Signal, topology: Topology) -> str:
    """The TaskManager's id as the logs have it, where they do."""
    return next((t for t in topology.tms if voice.tm and filtered(t) == filtered(voice.tm)), voice.tm)


def _whole(value: float) -> int:
    """A counter as an integer that state can hold, whatever was sent."""
    return int(max(-1.0, min(value, 1e15)))


def _usual(voice: Signal) -> int:
    return sorted(voice.gaps)[len(voice.gaps) // 2]


def _first(voice: Signal) -> int:
    """Event time of the first sample, as far as the last gaps reach back; 0 when it is older than they are."""
    return voice.time - sum(voice.gaps) if len(voice.gaps) < _GAPS else 0
