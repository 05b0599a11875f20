"""Metrics or log lines that came regularly have stopped, and no line shows that they were meant to.

Regular means: a process's metrics (after `min_history` scrapes) and a job's checkpoint lines. A source is missing when
nothing has come for `gap_factor` × its usual longest gap and at least `min_gap`. The finding depends on what still
arrives:

- one TaskManager: others still arrive, and the JobManager still counts it or its log shows no end
- one JobManager: TaskManagers still arrive, no other JobManager does, and no checkpoint line comes
- all metrics: checkpoint lines of the cluster still arrive, so the metrics pipeline is at fault, not Flink
- a job's log: its counter of completed checkpoints still grows, so the log pipeline is at fault
- the whole cluster: most likely the path from there to Kafka is at fault

Not reported: an orderly end (SIGTERM, the end of the job or of the cluster, a TaskManager that was closed or replaced;
`taskmanager_lost` covers those that are lost), a cluster without a running job, and checkpoint lines that stop while a
checkpoint is in progress (`checkpoint_overdue`). Clusters known only from logs or only from metrics, where an end could
not be seen, are reported as info, which alone notifies no one. Resolved when data arrives again, or with an orderly
end.

Why it matters: without data no incident can be detected. Post-mortem 000: scrapes stopped, and minutes later the
process was lost.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now
from detectors.events.event import LogEvent, MetricEvent
from detectors.events.names import filtered
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
_AGAIN = "data arrives again"


class Signal(msgspec.Struct, array_like=True):
    """One regular source: clock and event time of its last record, its last gaps in ms, and that record's address.

    `checked` is the clock at which a gap was last judged. `count` is a job's counter of completed checkpoints at its
    last line, `counted` the counter now (-1: unknown). `busy`: a checkpoint is in progress.
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

    def receive(self, clock: int, time: int, record: tuple[str, int, int]) -> None:
        """Take in a record at `clock`. `time` separates a new scrape from another part of the last or a late one."""
        if time - self.time >= _SAME_SCRAPE_MS:
            self.gaps = [*self.gaps, time - self.time][-_GAPS:]
            self.time, self.record = time, record
        self.last = max(self.last, clock)


class LostSignal(msgspec.Struct, array_like=True):
    """An open finding: since when data is missing (event time), its summary, and the last record."""

    since: int
    summary: str
    record: Evidence
    severity: Severity
    tm: str = ""
    host: str = ""
    job: str = ""


class TelemetryLost(Detector):
    """Detects metrics and log lines that have stopped arriving."""

    kind = "telemetry_lost"
    belongs_to = "process"
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
        """Settings of the detector `telemetry_lost`."""

        gap_factor: float = Field(
            5.0,
            ge=2,
            description="Multiple of a source's usual longest gap after which its data counts as missing.",
        )
        min_gap: Duration = Field(
            60_000,
            description="Minimum time without data before a source counts as missing. Flink waits 50 s for a "
            "heartbeat, and log shippers flush within 30 s.",
        )
        cluster_min_gap: Duration = Field(
            300_000,
            description="Minimum time without any data from a cluster before the cluster is reported. Agents may be "
            "restarting.",
        )
        min_history: int = Field(
            6, ge=3, le=8, description="Number of gaps between samples or lines from which a source counts as regular."
        )
        missed_checkpoints: int = Field(
            3,
            ge=1,
            description="Number of completed checkpoints in the metrics since the last log line from which log "
            "lines count as missing.",
        )
        forget_after: Duration = Field(
            3_600_000, description="Time after which a source that stopped without being reported is forgotten."
        )

    class State(msgspec.Struct, array_like=True):
        """Signals of `processes` by "tm|id" or "jm|host", of `logs` by job id. `open` holds findings by subject.

        `last_line` is the clock of the last log line, `registered` the JobManager's count of TaskManagers and its
        clock.
        """

        processes: dict[str, Signal] = {}
        logs: dict[str, Signal] = {}
        open: dict[str, LostSignal] = {}
        last_line: int = 0
        registered: tuple[int, int] = (-1, 0)
        tm_registered: int = 0

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if isinstance(event, MetricEvent):
            yield from self._measured(state, event, now, topology)
            return
        state.last_line = max(state.last_line, now.clock)
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
                yield from self._forget(state, [f"tm|{filtered(tm)}"], "Flink logged its end", now, topology)
            case "job_state" | "job_ended" | "task_state":
                yield from self._changed(state, event, now, topology)
            case _:
                yield from self._line(state, event, now, topology)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Judge sources whose data has been missing for too long."""
        late = [k for k, v in state.processes.items() if self._due(v) is not None and now >= (self._due(v) or 0)]
        for key in late:
            signal = state.processes[key]
            signal.checked = now
            if now - signal.last > self.config.forget_after and key not in state.open:
                del state.processes[key]
        yield from self._judge([k for k in late if k in state.processes], state, now, topology)
        for job, signal in list(state.logs.items()):
            if now >= (self._due(signal) or now + 1):
                signal.checked = now
                yield from self._judge_log(state, job, signal, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When data of the first regular source has been missing for too long."""
        dues = (self._due(v) for signals in (state.processes, state.logs) for v in signals.values())
        return min((d for d in dues if d is not None), default=None)

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """Export when each process was last sampled and when the last line of each job's log came, as timestamps."""
        for key, signal in state.processes.items():
            labels = {"process": signal.tm or key.partition("|")[2]}
            yield Reading(name="last_sample_timestamp_seconds", labels=labels, value=signal.last / 1000, at=now)
        for job, signal in state.logs.items():
            labels = {"job": topology.job_name(job) or job}
            yield Reading(name="last_log_line_timestamp_seconds", labels=labels, value=signal.last / 1000, at=now)

    def _due(self, signal: Signal) -> int | None:
        if len(signal.gaps) < self.config.min_history:
            return None
        return max(signal.last + self._limit(signal), signal.checked + self.config.min_gap if signal.checked else 0)

    def _limit(self, signal: Signal) -> int:
        return max(self.config.min_gap, round(self.config.gap_factor * max(signal.gaps)))

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
            signal = state.processes.get(key)
            if signal is None:
                put_bounded(state.processes, key, Signal(now.clock, event.time, [], record, tm, host), _MAX)
            else:
                signal.receive(now.clock, event.time, record)
                signal.checked = 0
        if places and state.open:
            yield from self._close(state, [*places, _METRICS, _CLUSTER], _AGAIN, now.clock, topology)

    def _counted(self, state: State, job: str, value: int) -> None:
        signal = state.logs.get(job)
        if signal is not None:
            signal.counted = value
            if signal.count < 0 or value < signal.count:
                signal.count = value

    def _line(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        job = topology.job_of(event)
        record = (event.topic, event.partition, event.offset)
        signal = state.logs.get(job)
        if signal is None:
            signal = Signal(now.clock, now.time, [], record, host=event.host)
            put_bounded(state.logs, job, signal, _MAX)
        # Only triggers are regular; each has a second line soon after it.
        if event.event_type == "checkpoint_triggered":
            signal.receive(now.clock, now.time, record)
        signal.last = max(signal.last, now.clock)
        signal.busy = event.event_type == "checkpoint_triggered"
        signal.count, signal.checked = signal.counted, 0
        yield from self._close(state, [f"log|{job}"], _AGAIN, now.clock, topology)

    def _changed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """A job that ends or restarts, or whose first tasks have finished, may stop writing checkpoint lines."""
        job = topology.job_of(event)
        new = event.fields.get("state", "")
        if event.event_type == "task_state" and new != "FINISHED":
            return
        yield from self._close(state, [f"log|{job}"], f"the job is {new}", now.clock, topology)
        state.logs.pop(job, None)
        if new in _OVER and not self._running(state, topology):
            # Processes that export only metrics of tasks stop exporting now, and TaskManagers may be released.
            yield from self._forget_all(state, "no job is running", now, topology)

    def _signalled(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """A signal ends the TaskManager that got it, those of its host or, to another process, the cluster."""
        tm = topology.tm_of_source.get(event.source)
        tms = [tm] if tm else [t for t, known in topology.tms.items() if known.host and known.host == event.host]
        if tms:
            yield from self._forget(
                state, [f"tm|{filtered(t)}" for t in tms], "it received a signal to stop", now, topology
            )
        else:
            yield from self._forget_all(state, "the cluster received a signal to stop", now, topology)

    def _forget(self, state: State, keys: list[str], why: str, now: Now, topology: Topology) -> Iterator[Finding]:
        for key in keys:
            state.processes.pop(key, None)
        yield from self._close(state, keys, why, now.clock, topology)

    def _forget_all(self, state: State, why: str, now: Now, topology: Topology) -> Iterator[Finding]:
        state.logs.clear()
        yield from self._forget(state, [*state.processes, *list(state.open)], why, now, topology)

    def _running(self, state: State, topology: Topology) -> bool:
        return bool(state.logs) or any(job.state in _ACTIVE for job in topology.jobs.values())

    def _judge(self, late: list[str], state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report processes without data: single ones, or all at once."""
        if not late or not self._running(state, topology):
            return
        live = {k for k, v in state.processes.items() if now - v.last <= self._fresh(v)}
        if live:
            for key in late:
                found = self._one_process(key, live, state, now, topology)
                if found is None:
                    yield from self._close(state, [key], "another process has replaced it", now, topology)
                    del state.processes[key]
                else:
                    yield from self._report(state, key, state.processes[key], *found, now, topology)
            return
        last = max((state.processes[k] for k in late), key=lambda v: v.last)
        count = len(state.processes)
        processes = f"its {count} processes" if count > 1 else "its only process"
        what = f"no metrics of {processes} for {humanize(now - last.last)} (usually every {humanize(_usual(last))})"
        if state.last_line > last.last + self.config.min_gap // 2:
            summary = f"{what}, but the cluster is still logging. Metrics are not reaching Kafka."
            yield from self._report(state, _METRICS, last, summary, "warning", now, topology)
        elif _METRICS not in state.open and now - last.last >= self.config.cluster_min_gap:
            summary = f"no data from this cluster: {what}, and no log lines either"
            yield from self._report(
                state, _CLUSTER, last, summary, "warning" if state.last_line else "info", now, topology
            )

    def _fresh(self, signal: Signal) -> int:
        return max(self.config.min_gap // 2, 2 * max(signal.gaps, default=0))

    def _one_process(
        self, key: str, live: set[str], state: State, now: int, topology: Topology
    ) -> tuple[str, Severity] | None:
        """Summary and severity for one process without data while others still arrive; None if it was replaced."""
        signal = state.processes[key]
        gap = f"no metrics for {humanize(now - signal.last)} (usually every {humanize(_usual(signal))})"
        still_logging = any(v.last > signal.last + self.config.min_gap // 2 for v in state.logs.values())
        peers = [k for k in live if k[:3] == key[:3]]
        if key.startswith("jm|"):
            if peers:
                return None
            summary = (
                f"JobManager {signal.host}: {gap} and no checkpoint lines, while {len(live)} other processes still "
                "report"
            )
            return summary, "info" if still_logging else "warning"
        if state.tm_registered > signal.last or any(_first(state.processes[k]) > signal.time for k in peers):
            return None
        counted, at = state.registered
        summary = f"TaskManager {topology.tm_of_label(signal.tm)}: {gap} while {len(live)} other processes still report"
        if at > signal.last + self.config.min_gap // 2:
            known = counted > len(peers)
            return (
                f"{summary}; the JobManager still counts it as registered" if known else summary,
                "warning" if known else "info",
            )
        return f"{summary}; the JobManager has not logged its end", "warning" if still_logging else "info"

    def _judge_log(self, state: State, job: str, signal: Signal, now: int, topology: Topology) -> Iterator[Finding]:
        missing = signal.counted - signal.count if signal.count >= 0 else 0
        gap = f"no checkpoint lines of {topology.job_name(job) or job} for {humanize(now - signal.last)}"
        if missing >= self.config.missed_checkpoints:
            summary = f"{gap}, but its metrics count {missing} completed checkpoints. Its log is not reaching Kafka."
            yield from self._report(state, f"log|{job}", signal, summary, "warning", now, topology, job)
        elif (
            not state.processes
            and not signal.busy
            and state.last_line <= signal.last <= now - self.config.cluster_min_gap
        ):
            summary = f"no data from this cluster: {gap} (usually every {humanize(_usual(signal))})"
            yield from self._report(state, _CLUSTER, signal, summary, "info", now, topology, job)

    def _report(
        self,
        state: State,
        key: str,
        signal: Signal,
        summary: str,
        severity: Severity,
        now: int,
        topology: Topology,
        job: str = "",
    ) -> Iterator[Finding]:
        before = state.open.get(key)
        if before is not None and severity in (before.severity, "info"):
            return
        tm = topology.tm_of_label(signal.tm)
        record = Evidence(*signal.record, signal.time, "the last record before data stopped")
        whole = key in (_METRICS, _CLUSTER)
        lost = LostSignal(
            signal.time,
            summary,
            record,
            severity,
            "" if whole else tm,
            "" if whole else topology.host_of(tm) or signal.host,
            job,
        )
        put_bounded(state.open, key, lost, _MAX)
        yield self._finding(key, lost, now, topology)

    def _close(self, state: State, keys: list[str], why: str, now: int, topology: Topology) -> Iterator[Finding]:
        for key in keys:
            lost = state.open.pop(key, None)
            if lost is not None:
                finding = self._finding(key, lost, now, topology)
                finding.closed_at, finding.closed_because = now, why
                yield finding

    def _finding(self, key: str, lost: LostSignal, now: int, topology: Topology) -> Finding:
        return Finding(
            kind=self.kind,
            subject=key,
            entity={
                "tm_id": lost.tm,
                "host": lost.host,
                "job_id": lost.job,
                "job_name": topology.job_name(lost.job) if lost.job else "",
            },
            since=lost.since,
            at=now,
            severity=lost.severity,
            summary=lost.summary,
            confidence="fair",
            evidence=[lost.record],
            advice="Check whether the process still runs and answers (Flink's UI, its pod or container, its host), "
            "then whether its metrics or log lines still reach Kafka: the agent, the shipper, the topic. If other "
            "clusters are affected too, check the path to Kafka. Until data arrives again, incidents there cannot "
            "be detected.",
        )


def _whole(value: float) -> int:
    """A counter as an integer that fits into the state, whatever the sample holds."""
    return int(max(-1.0, min(value, 1e15)))


def _usual(signal: Signal) -> int:
    return sorted(signal.gaps)[len(signal.gaps) // 2]


def _first(signal: Signal) -> int:
    """Event time of the first sample; 0 if it is older than the kept gaps."""
    return signal.time - sum(signal.gaps) if len(signal.gaps) < _GAPS else 0
