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

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.events.names import filtered
from detectors.flink import facts
from detectors.flink.facts import Fact
from detectors.flink.job_states import ENDING
from detectors.incident import Evidence, Finding, Reading, Severity
from detectors.values.bounded import put_bounded, to_int
from detectors.values.durations import Duration, humanize

_MAX = 400
_GAPS = 8
_SAME_SCRAPE_MS = 500
_ACTIVE = frozenset({"CREATED", "RUNNING", "RESTARTING", "FAILING", "INITIALIZING", "RECONCILING"})
_OVER = ENDING | {"SUSPENDED"}
_METRICS, _CLUSTER = "all metrics", "the whole cluster"
_AGAIN = "data arrives again"

_View: TypeAlias = "View[TelemetryLost.Config, TelemetryLost.State]"


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

    def measure(self, completed: int) -> None:
        """Take in the job's counter of completed checkpoints."""
        self.counted = completed
        if self.count < 0 or completed < self.count:
            self.count = completed


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

    class Config(DetectorConfig):
        """Settings of the detector `telemetry_lost`."""

        gap_factor: float = threshold(
            5.0, "Multiple of a source's usual longest gap after which its data counts as missing.", ge=2
        )
        min_gap: Duration = threshold(
            60_000,
            "Minimum time without data before a source counts as missing. Flink waits 50 s for a heartbeat, and log "
            "shippers flush within 30 s.",
        )
        cluster_min_gap: Duration = threshold(
            300_000,
            "Minimum time without any data from a cluster before the cluster is reported. Agents may be restarting.",
        )
        min_history: int = threshold(
            6, "Number of gaps between samples or lines from which a source counts as regular.", ge=3, le=8
        )
        missed_checkpoints: int = threshold(
            3,
            "Number of completed checkpoints in the metrics since the last log line from which log lines count as "
            "missing.",
            ge=1,
        )
        forget_after: Duration = threshold(
            3_600_000, "Time after which a source that stopped without being reported is forgotten."
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

    @on(facts.CheckpointTriggered, facts.CheckpointCompleted, facts.CheckpointFailed)
    def checkpoint_line(self, view: _View, fact: Fact) -> None:
        """Only triggers are regular; each has a second line soon after it."""
        self._line(view)
        job = view.job
        signal = view.state.logs.get(job)
        if signal is None:
            signal = Signal(view.clock, view.time, [], _address(view), host=view.event.host)
            if out := put_bounded(view.state.logs, job, signal, _MAX):
                view.seen.add(f"log|{out[0]}")
        triggered = isinstance(fact, facts.CheckpointTriggered)
        if triggered:
            signal.receive(view.clock, view.time, _address(view))
        signal.last = max(signal.last, view.clock)
        signal.busy = triggered
        signal.count, signal.checked = signal.counted, 0
        view.seen.add(f"log|{job}")
        self._close(view, (f"log|{job}",), _AGAIN)

    @on(facts.JobStateChanged, facts.TaskStateChanged)
    def changed(self, view: _View, fact: facts.JobStateChanged | facts.TaskStateChanged) -> None:
        """A job that ends or restarts, or whose first tasks have finished, may stop writing checkpoint lines."""
        self._line(view)
        if isinstance(fact, facts.TaskStateChanged) and fact.state != "FINISHED":
            return
        job = view.job
        self._close(view, [f"log|{job}"], f"the job is {fact.state}")
        view.state.logs.pop(job, None)
        view.seen.add(f"log|{job}")
        if fact.state in _OVER and not self._running(view):
            # Processes that export only metrics of tasks stop exporting now, and TaskManagers may be released.
            self._forget_all(view, "no job is running")

    @on(facts.TaskManagerRegistered)
    def registered(self, view: _View, _: Fact) -> None:
        self._line(view)
        view.state.tm_registered = max(view.state.tm_registered, view.clock)

    @on(facts.TaskManagerGone)
    def gone(self, view: _View, fact: facts.TaskManagerGone) -> None:
        self._line(view)
        self._forget(view, [f"tm|{filtered(fact.tm or fact.address)}"], "Flink logged its end")

    @on(facts.TaskManagerDisconnected)
    def disconnected(self, view: _View, fact: facts.TaskManagerDisconnected) -> None:
        self._line(view)
        self._forget(view, [f"tm|{filtered(fact.tm)}"], "Flink logged its end")

    @on(facts.ProcessSignalled)
    def signalled(self, view: _View, _: Fact) -> None:
        """A signal ends the TaskManager that got it, those of its host or, to another process, the cluster."""
        self._line(view)
        if tms := view.topology.stopped_by_signal(view.line):
            self._forget(view, [f"tm|{filtered(t)}" for t in tms], "it received a signal to stop")
        else:
            self._forget_all(view, "the cluster received a signal to stop")

    @on(facts.ClusterEnding)
    def cluster_ending(self, view: _View, _: Fact) -> None:
        self._line(view)
        self._forget_all(view, "the cluster has ended")

    @on(
        *("heap_used", "metaspace_used", "records_in", "busy_time"),
        *("jm_heap_used", "registered_task_managers", "completed_checkpoints", "task_slots_total"),
    )
    def measured(self, view: _View, samples: list[Sample]) -> None:
        state, record = view.state, _address(view)
        places: dict[str, tuple[str, str]] = {}
        for sample in samples:
            tm, host = sample.labels.get("tm_id", ""), sample.labels.get("host", view.event.host)
            places.setdefault(f"tm|{filtered(tm)}" if tm else f"jm|{host}", (tm, host))
            if sample.name == "registered_task_managers" and view.clock >= state.registered[1]:
                state.registered = (max(to_int(sample.value), -1), view.clock)
            elif sample.name == "completed_checkpoints":
                signal = state.logs.get(sample.labels.get("job_id", ""))
                if signal is not None:
                    signal.measure(max(to_int(sample.value), -1))
        for key, (tm, host) in places.items():
            process = state.processes.get(key)
            if process is None:
                if out := put_bounded(state.processes, key, Signal(view.clock, view.time, [], record, tm, host), _MAX):
                    view.seen.add(out[0])
            else:
                process.receive(view.clock, view.time, record)
                process.checked = 0
            view.seen.add(key)
        if places:
            self._close(view, [*places, _METRICS, _CLUSTER], _AGAIN)

    def on_deadline(self, view: _View) -> None:
        """Judge sources whose data has been missing for too long."""
        processes, now = view.state.processes, view.clock
        view.deadlines = None
        late = [k for k, v in processes.items() if (due := self._due(v)) is not None and now >= due]
        for key in late:
            processes[key].checked = now
            if now - processes[key].last > self.config.forget_after and key not in view.state.open:
                del processes[key]
        self._judge(view, [k for k in late if k in processes])
        for job, signal in list(view.state.logs.items()):
            if now >= (self._due(signal) or now + 1):
                signal.checked = now
                self._judge_log(view, job, signal)

    def next_deadline(self, view: _View) -> int | None:
        """When data of the first regular source has been missing for too long."""
        processes, logs = view.state.processes, view.state.logs

        def due(key: str) -> int | None:
            kind, _, job = key.partition("|")
            signal = logs.get(job) if kind == "log" else processes.get(key)
            return None if signal is None else self._due(signal)

        return view.first_deadline((*processes, *(f"log|{job}" for job in logs)), due)

    def readings(self, view: _View) -> Iterator[Reading]:
        """When each process was last sampled and when the last line of each job's log came, as timestamps."""
        for key, signal in view.state.processes.items():
            process = signal.tm or key.partition("|")[2]
            yield view.reading("last_sample_timestamp_seconds", signal.last / 1000, process=process)
        for job, signal in view.state.logs.items():
            label = view.topology.job_name(job) or job
            yield view.reading("last_log_line_timestamp_seconds", signal.last / 1000, job=label)

    def _line(self, view: _View) -> None:
        """A line has arrived."""
        view.state.last_line = max(view.state.last_line, view.clock)
        self._close(view, (_CLUSTER,), _AGAIN)

    def _due(self, signal: Signal) -> int | None:
        if len(signal.gaps) < self.config.min_history:
            return None
        limit = max(self.config.min_gap, round(self.config.gap_factor * max(signal.gaps)))
        return max(signal.last + limit, signal.checked + self.config.min_gap if signal.checked else 0)

    def _forget(self, view: _View, keys: list[str], why: str) -> None:
        for key in keys:
            view.state.processes.pop(key, None)
            view.seen.add(key)
        self._close(view, keys, why)

    def _forget_all(self, view: _View, why: str) -> None:
        view.seen.update(f"log|{job}" for job in view.state.logs)
        view.state.logs.clear()
        self._forget(view, [*view.state.processes, *view.state.open], why)

    def _running(self, view: _View) -> bool:
        return bool(view.state.logs) or any(job.state in _ACTIVE for job in view.topology.jobs.values())

    def _judge(self, view: _View, late: list[str]) -> None:
        """Report processes without data: single ones, or all at once."""
        if not late or not self._running(view):
            return
        state, now = view.state, view.clock
        live = {k for k, v in state.processes.items() if now - v.last <= self._fresh(v)}
        if live:
            for key in late:
                found = self._one_process(view, key, live)
                if found is None:
                    self._close(view, [key], "another process has replaced it")
                    del state.processes[key]
                else:
                    self._report(view, key, state.processes[key], *found)
            return
        last = max((state.processes[k] for k in late), key=lambda v: v.last)
        count = len(state.processes)
        processes = f"its {count} processes" if count > 1 else "its only process"
        what = f"no metrics of {processes} for {humanize(now - last.last)} (usually every {humanize(_usual(last))})"
        if state.last_line > last.last + self.config.min_gap // 2:
            summary = f"{what}, but the cluster is still logging. Metrics are not reaching Kafka."
            self._report(view, _METRICS, last, summary, "warning")
        elif _METRICS not in state.open and now - last.last >= self.config.cluster_min_gap:
            summary = f"no data from this cluster: {what}, and no log lines either"
            self._report(view, _CLUSTER, last, summary, "warning" if state.last_line else "info")

    def _fresh(self, signal: Signal) -> int:
        return max(self.config.min_gap // 2, 2 * max(signal.gaps, default=0))

    def _one_process(self, view: _View, key: str, live: set[str]) -> tuple[str, Severity] | None:
        """Summary and severity for one process without data while others still arrive; None if it was replaced."""
        state, half = view.state, self.config.min_gap // 2
        signal = state.processes[key]
        gap = f"no metrics for {humanize(view.clock - signal.last)} (usually every {humanize(_usual(signal))})"
        still_logging = any(v.last > signal.last + half for v in state.logs.values())
        peers = [k for k in live if k[:3] == key[:3]]
        if key.startswith("jm|"):
            if peers:
                return None
            others = f"while {len(live)} other processes still report"
            summary = f"JobManager {signal.host}: {gap} and no checkpoint lines, {others}"
            return summary, "info" if still_logging else "warning"
        if state.tm_registered > signal.last or any(_first(state.processes[k]) > signal.time for k in peers):
            return None
        counted, at = state.registered
        tm = view.topology.tm_of_label(signal.tm)
        summary = f"TaskManager {tm}: {gap} while {len(live)} other processes still report"
        if at > signal.last + half:
            if counted > len(peers):
                return f"{summary}; the JobManager still counts it as registered", "warning"
            return summary, "info"
        return f"{summary}; the JobManager has not logged its end", "warning" if still_logging else "info"

    def _judge_log(self, view: _View, job: str, signal: Signal) -> None:
        state, now = view.state, view.clock
        missing = signal.counted - signal.count if signal.count >= 0 else 0
        gap = f"no checkpoint lines of {view.topology.job_name(job) or job} for {humanize(now - signal.last)}"
        if missing >= self.config.missed_checkpoints:
            summary = f"{gap}, but its metrics count {missing} completed checkpoints. Its log is not reaching Kafka."
            self._report(view, f"log|{job}", signal, summary, "warning", job)
        elif (
            not state.processes
            and not signal.busy
            and state.last_line <= signal.last <= now - self.config.cluster_min_gap
        ):
            summary = f"no data from this cluster: {gap} (usually every {humanize(_usual(signal))})"
            self._report(view, _CLUSTER, signal, summary, "info", job)

    def _report(self, view: _View, key: str, signal: Signal, summary: str, severity: Severity, job: str = "") -> None:
        before = view.state.open.get(key)
        if before is not None and severity in (before.severity, "info"):
            return
        lost = LostSignal(
            signal.time,
            summary,
            Evidence(*signal.record, signal.time, "the last record before data stopped"),
            severity,
            job=job,
        )
        if key not in (_METRICS, _CLUSTER):
            lost.tm = view.topology.tm_of_label(signal.tm)
            lost.host = view.topology.host_of(lost.tm) or signal.host
        put_bounded(view.state.open, key, lost, _MAX)
        view.report(self._finding(view, key, lost))

    def _close(self, view: _View, keys: Iterable[str], why: str) -> None:
        if not view.state.open:
            return
        for key in keys:
            lost = view.state.open.pop(key, None)
            if lost is not None:
                view.close(self._finding(view, key, lost), why)

    def _finding(self, view: _View, key: str, lost: LostSignal) -> Finding:
        name = view.topology.job_name(lost.job) if lost.job else ""
        return view.finding(
            key,
            {"tm_id": lost.tm, "host": lost.host, "job_id": lost.job, "job_name": name},
            since=lost.since,
            severity=lost.severity,
            summary=lost.summary,
            confidence="fair",
            evidence=[lost.record],
            advice="Check whether the process still runs and answers (Flink's UI, its pod or container, its host), "
            "then whether its metrics or log lines still reach Kafka: the agent, the shipper, the topic. If other "
            "clusters are affected too, check the path to Kafka. Until data arrives again, incidents there cannot "
            "be detected.",
        )


def _address(view: _View) -> tuple[str, int, int]:
    return view.event.topic, view.event.partition, view.event.offset


def _usual(signal: Signal) -> int:
    return sorted(signal.gaps)[len(signal.gaps) // 2]


def _first(signal: Signal) -> int:
    """Event time of the first sample; 0 if it is older than the kept gaps."""
    return signal.time - sum(signal.gaps) if len(signal.gaps) < _GAPS else 0
