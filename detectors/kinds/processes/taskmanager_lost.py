"""A TaskManager is lost: it is gone without an orderly end.

Opens `confirmation_delay` after the first hard line about a TaskManager: its heartbeat timed out, it is no longer
reachable, or its connection was closed or its worker terminated for such a reason. One finding for each TaskManager,
however many lines. Orderly ends are not losses: SIGTERM in its own log, `The TaskExecutor is shutting down`, the idle
timeout, the end of the job or of the cluster. Resolved when a TaskManager registers in its place (or it comes back), or
when checkpoints have completed for `recovered_without` and so the job runs without it.

If the TaskManager has lost the JobManager, too, and both continue, the finding says that the network between them is
interrupted (`witnesses.py`): then the process must not be killed.

A single "address is now gated" is only a hint that dates the first symptom. `Connection unexpectedly closed by remote
task manager` names the lost TaskManager in its text, although a healthy one writes it.

Reference: Flink, FLINK-23209 (no longer reachable after 2 failed RPCs since 1.14); post-mortem 004.
"""

from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import LogEvent, Sample
from detectors.flink import facts
from detectors.flink.facts import Fact
from detectors.flink.throttling.containers import throttled
from detectors.incident import Evidence, Finding
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_TMS = 400
_MAX_RECORDS = 4
_ALL = "*"
_CUT_OFF = (
    "Check the network between {host} and the JobManager's host: firewall, network policies, routes, DNS, a switch. "
    "Leave its process running: it registers again by itself within about a minute after the network works, and Flink "
    "restarts the job from the last checkpoint. If the network cannot be repaired soon, start a TaskManager on a host "
    "that the JobManager reaches."
)
_BACK = "it registered again under the same id, so it was paused or disconnected (unless ids are fixed)"

_View: TypeAlias = "View[TaskManagerLost.Config, TaskManagerLost.State]"


class TaskManagerLoss(msgspec.Struct, array_like=True):
    """The loss of one TaskManager: event time of the first symptom, clock of the first hard line, reason and records.

    `killed`: by YARN or Kubernetes. They send SIGTERM first, so a line about a signal does not disprove the loss.
    `cut_off`: it continues, and has lost its JobManager, too.
    """

    since: int
    at: int
    why: str
    records: list[Evidence]
    reported: bool = False
    killed: bool = False
    cut_off: bool = False


class TaskManagerLost(Detector):
    """Detects TaskManagers that are lost without an orderly end."""

    kind = "taskmanager_lost"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `taskmanager_lost`."""

        confirmation_delay: Duration = threshold(
            2_000, "Time to wait for a line of another source that shows an orderly end of the TaskManager."
        )
        orderly_exit_grace: Duration = threshold(
            60_000, "Time after an orderly end in which a loss of the same TaskManager is attributed to that end."
        )
        gated_hint_max_age: Duration = threshold(
            120_000,
            "Maximum age of a line in which Flink's RPC library (Akka or Pekko) calls the address of the TaskManager "
            "gated. A younger line is taken as the beginning of the loss.",
        )
        recovered_without: Duration = threshold(
            300_000,
            "Time after the loss from which a completed checkpoint resolves the finding, because the job runs without"
            " that TaskManager.",
        )

    class State(msgspec.Struct, array_like=True):
        """Losses by TaskManager id.

        `orderly` holds the clock of orderly ends ("*": all TaskManagers), `hints` the event time of gated addresses,
        `ended` the event time at which a loss ended: older lines that come again or late belong to that loss.
        """

        losses: dict[str, TaskManagerLoss] = {}
        orderly: dict[str, int] = {}
        hints: dict[str, int] = {}
        replacements: list[str] = []
        ended: dict[str, int] = {}

    config: Config

    @on(*facts.PROCESS_ENDS)
    def ended(self, view: _View, end: facts.ProcessEnd) -> None:
        for tm in end.tms or [_ALL]:
            if end.how == "orderly":
                self._orderly(view, tm)
            elif end.how:
                self._lost(view, tm, end.why, killed=end.how == "killed")

    @on(facts.AddressGated)
    def gated(self, view: _View, fact: facts.AddressGated) -> None:
        put_bounded(view.state.hints, fact.address, view.time, _MAX_TMS)

    @on(facts.PeerConnectionClosed)
    def peer_connection_closed(self, view: _View, fact: facts.PeerConnectionClosed) -> None:
        """A peer saw the connection close: a hint that dates a later loss, and evidence for a known one."""
        if fact.tm:
            put_bounded(view.state.hints, fact.tm, view.state.hints.get(fact.tm, view.time), _MAX_TMS)
            if fact.tm in view.state.losses:
                append_new(view.state.losses[fact.tm].records, view.record(), _MAX_RECORDS)

    @on(facts.JobManagerMissed, facts.JobManagerUnresolved, needs="losses")
    def misses_jobmanager(self, view: _View, _: Fact) -> None:
        self._look_at_path(view)

    @on("heap_used")
    def measured(self, view: _View, _: list[Sample]) -> None:
        if view.state.losses:
            self._look_at_path(view)

    @on(facts.TaskManagerRegistered)
    def registered(self, view: _View, fact: facts.TaskManagerRegistered) -> None:
        """Close the loss of this TaskManager, or of the one that it replaces: on the same host, else the oldest."""
        state, tm, topology = view.state, fact.tm, view.topology
        state.hints.pop(tm, None)
        if tm in state.losses:
            if view.time > state.losses[tm].since:
                # The same line again must not replace a second lost TaskManager.
                state.replacements = [*state.replacements, tm][-_MAX_TMS:]
                self._end(view, tm, _BACK)
            return
        missing = [t for t, loss in state.losses.items() if loss.since < view.time]
        known = topology.tms.get(tm)
        new = known is None or not 0 < known.registered < view.time
        if missing and new and tm not in state.replacements:
            host = topology.host_of(tm)
            same = [t for t in missing if host and topology.host_of(t) == host]
            lost = same[0] if same else min(missing, key=lambda t: state.losses[t].at)
            state.replacements = [*state.replacements, tm][-_MAX_TMS:]
            self._end(view, lost, f"TaskManager {tm} registered in its place")
            # JobMaster and ResourceManager time out at different times: a later line of one is not a second loss.
            state.ended[lost] = view.time + self.config.orderly_exit_grace

    @on(facts.CheckpointCompleted, needs="losses")
    def completed(self, view: _View, _: Fact) -> None:
        for tm, loss in list(view.state.losses.items()):
            if view.clock - loss.at >= self.config.recovered_without:
                why = f"checkpoints have completed without {tm} for {humanize(view.clock - loss.at)}"
                self._end(view, tm, why)

    def on_deadline(self, view: _View) -> None:
        """Report losses that no line has disproved in time."""
        for tm, loss in view.state.losses.items():
            if not loss.reported and view.clock >= loss.at + self.config.confirmation_delay:
                loss.reported = True
                view.report(self._finding(view, tm, loss))

    def next_deadline(self, view: _View) -> int | None:
        """When the first unconfirmed loss is confirmed."""
        waiting = [loss.at for loss in view.state.losses.values() if not loss.reported]
        return min(waiting) + self.config.confirmation_delay if waiting else None

    def _look_at_path(self, view: _View) -> None:
        for tm, loss in view.state.losses.items():
            if loss.reported and not loss.cut_off and view.topology.witnesses.path_broken(tm):
                loss.cut_off = True
                if isinstance(view.event, LogEvent):
                    append_new(loss.records, view.record(), _MAX_RECORDS)
                view.report(self._finding(view, tm, loss))

    def _orderly(self, view: _View, tm: str) -> None:
        put_bounded(view.state.orderly, tm, view.clock, _MAX_TMS)
        for lost, loss in list(view.state.losses.items()):
            if tm in (_ALL, lost) and not loss.reported and not loss.killed:
                del view.state.losses[lost]

    def _lost(self, view: _View, tm: str, why: str, killed: bool = False) -> None:
        state = view.state
        ended = max(state.orderly.get(tm, LONG_AGO), state.orderly.get(_ALL, LONG_AGO))
        orderly = view.clock - ended <= self.config.orderly_exit_grace and not killed
        if orderly or view.time <= state.ended.get(tm, view.time - 1):
            return
        loss = state.losses.get(tm)
        if loss is None:
            # Its container may be gone before the loss is confirmed.
            starved = throttled(view.topology, view.time, tm)
            loss = TaskManagerLoss(self._first_symptom(view, tm), view.clock, why + starved, [])
            put_bounded(state.losses, tm, loss, _MAX_TMS)
        if killed:
            loss.killed, loss.why = True, why
        append_new(loss.records, view.record(), _MAX_RECORDS)
        # A frozen process comes back under the same id and may be lost again.
        state.replacements = [r for r in state.replacements if r != tm]

    def _first_symptom(self, view: _View, tm: str) -> int:
        hints = [view.state.hints[k] for k in (tm, tm.rsplit("-", 1)[0]) if k in view.state.hints]
        recent = [h for h in hints if 0 <= view.time - h <= self.config.gated_hint_max_age]
        return min(recent, default=view.time)

    def _end(self, view: _View, tm: str, why: str) -> None:
        loss = view.state.losses.pop(tm)
        put_bounded(view.state.ended, tm, view.time, _MAX_TMS)
        finding = self._finding(view, tm, loss)
        if not loss.reported:
            # A TaskManager that was replaced within the waiting time was lost too: report the loss, then its end.
            view.report(finding)
        view.close(finding, why)

    def _finding(self, view: _View, tm: str, loss: TaskManagerLoss) -> Finding:
        host = view.topology.host_of(tm)
        job, name = view.topology.only_job()
        where = f" on host {host}" if host and host not in tm else ""
        cut_off = "; it still runs and has lost the JobManager, too: the network between them is interrupted"
        return view.finding(
            tm,
            {"tm_id": tm, "host": host, "job_id": job, "job_name": name},
            since=loss.since,
            severity="critical",
            summary=f"TaskManager {tm}{where} is lost: {loss.why}{cut_off * loss.cut_off}",
            evidence=loss.records,
            advice=_CUT_OFF.format(host=host or "its host")
            if loss.cut_off
            else f"Check whether its process, pod or container still runs on {host or 'its host'}, and why it ended: "
            "the last lines of its own log, an OutOfMemoryError in its .out file, OOMKilled, trouble of the node. The "
            "job waits for slots until another TaskManager registers; then Flink itself restarts it from the last "
            "checkpoint.",
        )
