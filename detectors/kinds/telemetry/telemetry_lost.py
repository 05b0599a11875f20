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
not be seen, are reported as info, which alone notifies no one. Resolved when three scrapes or a line arrive again, or
with an orderly end.

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
from detectors.flink.regular_sources import JobLogs, RegularSource, ScrapedProcesses
from detectors.incident import Finding, Reading, Severity
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_OPEN = 400
_ACTIVE = frozenset({"CREATED", "RUNNING", "RESTARTING", "FAILING", "INITIALIZING", "RECONCILING"})
_OVER = ENDING | {"SUSPENDED"}
_METRICS, _CLUSTER = "all metrics", "the whole cluster"
_AGAIN = "data arrives again"

_View: TypeAlias = "View[TelemetryLost.Config, TelemetryLost.State]"


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
        """`open` holds findings by subject, `last_line` is the clock of the last log line.

        `tm_registered` is the clock at which a TaskManager last registered.
        """

        processes: ScrapedProcesses = msgspec.field(default_factory=ScrapedProcesses)
        logs: JobLogs = msgspec.field(default_factory=JobLogs)
        open: dict[str, Finding] = {}
        last_line: int = 0
        tm_registered: int = 0

    config: Config

    @on(facts.CheckpointTriggered, facts.CheckpointCompleted, facts.CheckpointFailed)
    def checkpoint_line(self, view: _View, fact: Fact) -> None:
        self._line(view)
        key, triggered = f"log|{view.job}", isinstance(fact, facts.CheckpointTriggered)
        dropped = view.state.logs.line(key, triggered, view.event, view.time, view.clock)
        view.seen.update((key, *dropped))
        self._close(view, [key], _AGAIN)

    @on(facts.JobStateChanged, facts.TaskStateChanged)
    def changed(self, view: _View, fact: facts.JobStateChanged | facts.TaskStateChanged) -> None:
        """A job that ends or restarts, or whose first tasks have finished, may stop writing checkpoint lines."""
        self._line(view)
        if isinstance(fact, facts.TaskStateChanged) and fact.state != "FINISHED":
            return
        key = f"log|{view.job}"
        view.state.logs.by_key.pop(key, None)
        view.seen.add(key)
        self._close(view, [key], f"the job is {fact.state}")
        if fact.state in _OVER and not self._running(view):
            # Processes that export only metrics of tasks stop exporting now, and TaskManagers may be released.
            self._forget_all(view, "no job is running")

    @on(facts.TaskManagerRegistered)
    def registered(self, view: _View, _: Fact) -> None:
        self._line(view)
        view.state.tm_registered = max(view.state.tm_registered, view.clock)

    @on(*facts.PROCESS_ENDS)
    def ended(self, view: _View, end: facts.ProcessEnd) -> None:
        self._line(view)
        if end.tms:
            self._forget(view, [f"tm|{filtered(tm)}" for tm in end.tms], "Flink logged its end")
        elif end.how == "orderly":
            self._forget_all(view, "the cluster has ended")

    @on(
        *("heap_used", "metaspace_used", "records_in", "busy_time"),
        *("jm_heap_used", "registered_task_managers", "completed_checkpoints", "task_slots_total"),
    )
    def measured(self, view: _View, samples: list[Sample]) -> None:
        keys, dropped = view.state.processes.measure(samples, view.event, view.time, view.clock)
        view.state.logs.measure(samples)
        view.seen.update((*keys, *dropped))
        back = [k for k in keys if (known := view.state.processes.by_key.get(k)) is not None and known.back]
        if back:
            self._close(view, [*back, _METRICS, _CLUSTER], _AGAIN)

    def on_deadline(self, view: _View) -> None:
        """Judge sources whose data has been missing for too long."""
        processes, now = view.state.processes.by_key, view.clock
        view.deadlines = None
        late = [k for k, v in processes.items() if (due := self._due(v)) is not None and now >= due]
        for key in late:
            processes[key].checked, processes[key].again = now, 0
            if now - processes[key].last > self.config.forget_after and key not in view.state.open:
                del processes[key]
        self._judge(view, [k for k in late if k in processes])
        for key, log in list(view.state.logs.by_key.items()):
            if now >= (self._due(log) or now + 1):
                log.checked = now
                self._judge_log(view, key, log)

    def next_deadline(self, view: _View) -> int | None:
        """When data of the first regular source has been missing for too long."""
        processes, logs = view.state.processes.by_key, view.state.logs.by_key

        def due(key: str) -> int | None:
            source = logs.get(key) or processes.get(key)
            return None if source is None else self._due(source)

        return view.first_deadline((*processes, *logs), due)

    def readings(self, view: _View) -> Iterator[Reading]:
        """When each process was last sampled and when the last line of each job's log came, as timestamps."""
        for key, process in view.state.processes.by_key.items():
            who = process.tm or key.partition("|")[2]
            yield view.reading("last_sample_timestamp_seconds", process.last / 1000, process=who)
        for key, log in view.state.logs.by_key.items():
            label = self._job_label(view, key)
            yield view.reading("last_log_line_timestamp_seconds", log.last / 1000, job=label)

    def _line(self, view: _View) -> None:
        """A line has arrived."""
        view.state.last_line = max(view.state.last_line, view.clock)
        self._close(view, (_CLUSTER,), _AGAIN)

    def _due(self, source: RegularSource) -> int | None:
        return source.missing_at(self.config.min_history, self.config.gap_factor, self.config.min_gap)

    def _forget(self, view: _View, keys: list[str], why: str) -> None:
        for key in keys:
            view.state.processes.by_key.pop(key, None)
            view.seen.add(key)
        self._close(view, keys, why)

    def _forget_all(self, view: _View, why: str) -> None:
        view.seen.update(view.state.logs.by_key)
        view.state.logs.by_key.clear()
        self._forget(view, [*view.state.processes.by_key, *view.state.open], why)

    def _running(self, view: _View) -> bool:
        return bool(view.state.logs.by_key) or any(job.state in _ACTIVE for job in view.topology.jobs.values())

    def _judge(self, view: _View, late: list[str]) -> None:
        """Report processes without data: single ones, or all at once."""
        if not late or not self._running(view):
            return
        state, now, half = view.state, view.clock, self.config.min_gap // 2
        live = {k for k, v in state.processes.by_key.items() if v.fresh(now, half)}
        if live:
            for key in late:
                found = self._one_process(view, key, live)
                if found is None:
                    self._close(view, [key], "another process has replaced it")
                    del state.processes.by_key[key]
                else:
                    self._report(view, key, state.processes.by_key[key], *found)
            return
        for process in state.processes.by_key.values():
            process.again = 0
        last = max((state.processes.by_key[k] for k in late), key=lambda v: v.last)
        count = len(state.processes.by_key)
        what = f"no metrics of {f'its {count} processes' if count > 1 else 'its only process'} for {_gap(view, last)}"
        if state.last_line > last.last + half:
            summary = f"{what}, but the cluster is still logging. Metrics are not reaching Kafka."
            self._report(view, _METRICS, last, summary, "warning")
        elif _METRICS not in state.open and now - last.last >= self.config.cluster_min_gap:
            summary = f"no data from this cluster: {what}, and no log lines either"
            self._report(view, _CLUSTER, last, summary, "warning" if state.last_line else "info")

    def _one_process(self, view: _View, key: str, live: set[str]) -> tuple[str, Severity] | None:
        """Summary and severity for one process without data while others still arrive; None if it was replaced."""
        state, half = view.state, self.config.min_gap // 2
        process = state.processes.by_key[key]
        gap, others = f"no metrics for {_gap(view, process)}", f"while {len(live)} other processes still report"
        still_logging = any(log.last > process.last + half for log in state.logs.by_key.values())
        peers = [state.processes.by_key[k] for k in live if k[:3] == key[:3]]
        if key.startswith("jm|"):
            if peers:
                return None
            summary = f"JobManager {process.host}: {gap} and no checkpoint lines, {others}"
            return summary, "info" if still_logging else "warning"
        if state.tm_registered > process.last or any(peer.began() > process.time for peer in peers):
            return None
        counted, at = state.processes.registered
        summary = f"TaskManager {view.topology.tm_of_label(process.tm)}: {gap} {others}"
        if at <= process.last + half:
            return f"{summary}; the JobManager has not logged its end", "warning" if still_logging else "info"
        if counted > len(peers):
            return f"{summary}; the JobManager still counts it as registered", "warning"
        return summary, "info"

    def _judge_log(self, view: _View, key: str, log: RegularSource) -> None:
        state, missed = view.state, log.missed()
        what = f"no checkpoint lines of {self._job_label(view, key)} for"
        if missed >= self.config.missed_checkpoints:
            gap = humanize(view.clock - log.last)
            text = f"{what} {gap}, but its metrics count {missed} completed checkpoints. Its log is not reaching Kafka."
            self._report(view, key, log, text, "warning", key[4:])
            return
        alone = not state.processes.by_key and state.last_line <= log.last
        if alone and not log.busy and log.last <= view.clock - self.config.cluster_min_gap:
            text = f"no data from this cluster: {what} {_gap(view, log)}"
            self._report(view, _CLUSTER, log, text, "info", key[4:])

    def _job_label(self, view: _View, key: str) -> str:
        return view.topology.job_name(key[4:]) or key[4:]

    def _report(self, view: _View, key: str, lost: RegularSource, text: str, severity: Severity, job: str = "") -> None:
        before, topology = view.state.open.get(key), view.topology
        if before is not None and severity in (before.severity, "info"):
            return
        alone = key not in (_METRICS, _CLUSTER)
        tm = topology.tm_of_label(lost.tm) if alone else ""
        host = topology.host_of(tm) or lost.host if alone else ""
        finding = view.finding(
            key,
            {"tm_id": tm, "host": host, "job_id": job, "job_name": topology.job_name(job) if job else ""},
            since=lost.time,
            severity=severity,
            summary=text,
            confidence="fair",
            evidence=[lost.evidence()],
            advice="Check whether the process still runs and answers (Flink's UI, its pod or container, its host), "
            "then whether its metrics or log lines still reach Kafka: the agent, the shipper, the topic. If other "
            "clusters are affected too, check the path to Kafka. Until data arrives again, incidents there cannot "
            "be detected.",
        )
        put_bounded(view.state.open, key, finding, _MAX_OPEN)
        view.report(msgspec.structs.replace(finding))

    def _close(self, view: _View, keys: Iterable[str], why: str) -> None:
        for finding in [view.state.open.pop(key) for key in keys if key in view.state.open]:
            view.close(finding, why)


def _gap(view: _View, source: RegularSource) -> str:
    return f"{humanize(view.clock - source.last)} (usually every {humanize(source.usual())})"
