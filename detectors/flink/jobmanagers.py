"""The JobManagers of a cluster, the TaskManagers connected to them, and checkpoint cadences, as known from logs."""

import msgspec

from detectors.events.event import LogEvent, MetricEvent
from detectors.incident import Evidence
from detectors.values.bounded import put_bounded, setdefault_bounded
from detectors.values.durations import LONG_AGO

BY_A_JOBMANAGER = frozenset(
    {
        "checkpoint_triggered",
        "checkpoint_completed",
        "job_state",
        "tm_registered",
        "tm_timed_out",
        "tm_unreachable",
        "leader_granted",
    }
)
"""Types of lines that only a JobManager writes, and that so prove that it is alive."""

STARTS = frozenset({"process_version", "rpc_started"})
_MAX_SOURCES = 200
_MAX_JOBS = 100
_UNKNOWN_ENDED_MS = 60_000


class JobManagerProcess(msgspec.Struct, array_like=True):
    """A JobManager as its own log shows it. `began` and `last_seen` are event times of its start and last line."""

    host: str = ""
    address: str = ""
    began: int = LONG_AGO
    last_seen: int = LONG_AGO


class TaskManagerView(msgspec.Struct, array_like=True):
    """The JobManager as one TaskManager sees it: where it registered, and how and when it lost contact since.

    `marks` holds the event time of each way in which it lost contact, `stopped` that of a signal to it, `suspect` the
    address that it complains about.
    """

    address: str = ""
    registered: int = LONG_AGO
    marks: dict[str, int] = {}
    records: list[Evidence] = []
    job: str = ""
    suspect: str = ""
    stopped: int = LONG_AGO

    def register(self, address: str, time: int) -> None:
        """Note that it has registered with a JobManager. Earlier complaints are dropped."""
        if time > self.registered:
            self.address, self.registered = address, time
            self.marks = {k: t for k, t in self.marks.items() if t > time}
            self.records, self.stopped = [], LONG_AGO

    def stopping(self, time: int) -> bool:
        """Whether it was about to end, so that its complaints prove nothing."""
        return 0 <= time - self.stopped <= _UNKNOWN_ENDED_MS


class CheckpointCadence(msgspec.Struct, array_like=True):
    """A job's last completed checkpoint with its event time, the last trigger, and the time between triggers (ms)."""

    checkpoint: str = ""
    completed: int = 0
    triggered: int = 0
    interval: int = 0


class JobManagers(msgspec.Struct, array_like=True):
    """Processes by source. `addresses` is of both kinds of process, `orderly` the event time of orderly ends."""

    masters: dict[str, JobManagerProcess] = {}
    witnesses: dict[str, TaskManagerView] = {}
    addresses: dict[str, str] = {}
    orderly: dict[str, int] = {}
    cadences: dict[str, CheckpointCadence] = {}
    yarn: bool = False

    def measured(self, event: MetricEvent) -> None:
        """Take in metrics of a JobManager, which prove that it is alive."""
        for master in self.masters.values():
            if master.host and master.host == event.host:
                master.last_seen = max(master.last_seen, event.time)

    def started(self, event: LogEvent, time: int) -> None:
        """Take in a start-up line, which says what a process is or at which address it listens."""
        if event.event_type == "rpc_started":
            put_bounded(self.addresses, event.source, event.fields.get("address", ""), _MAX_SOURCES)
            return
        what = event.fields.get("what", "")
        self.yarn = self.yarn or "YARN" in what.upper()
        known = self.masters.get(event.source)
        if known is not None and known.began >= time:
            return
        if "Entrypoint" in what or ("JobManager" in what and "TaskManager" not in what):
            put_bounded(self.masters, event.source, JobManagerProcess(event.host, "", time, time), _MAX_SOURCES)
            self.orderly.pop(event.source, None)
            self.addresses.pop(event.source, None)

    def line(self, event: LogEvent, time: int) -> JobManagerProcess:
        """Take in a line that only a JobManager writes, and return that JobManager."""
        master = self.master(event)
        master.last_seen = max(master.last_seen, time)
        if event.event_type == "leader_granted":
            if time > master.began:
                master.began = time
                self.orderly.pop(event.source, None)
            master.address = event.fields.get("address", "") or master.address
        elif event.event_type == "checkpoint_triggered" and "savepoint" not in event.fields.get("type", "").lower():
            cadence = self._cadence(event)
            if cadence.triggered and time > cadence.triggered:
                cadence.interval = time - cadence.triggered
            cadence.triggered = max(cadence.triggered, time)
        elif event.event_type == "checkpoint_completed" and time > (cadence := self._cadence(event)).completed:
            cadence.checkpoint, cadence.completed = event.fields.get("checkpoint", ""), time
        return master

    def master(self, event: LogEvent) -> JobManagerProcess:
        """The JobManager that wrote a line, added if it is new."""
        return setdefault_bounded(self.masters, event.source, JobManagerProcess(event.host), _MAX_SOURCES)

    def witness(self, event: LogEvent) -> TaskManagerView:
        """The TaskManager that wrote a line, added if it is new."""
        return setdefault_bounded(self.witnesses, event.source, TaskManagerView(), _MAX_SOURCES)

    def ends(self, source: str, time: int) -> None:
        """Note that a process ended in an orderly way, unless it has started again since."""
        known = self.masters.get(source)
        if known is None or known.began <= time:
            put_bounded(self.orderly, source, max(time, self.orderly.get(source, time)), _MAX_SOURCES)

    def ended_orderly(self, source: str, time: int, within: int) -> bool:
        """Whether this JobManager ended in an orderly way. If its source is unknown, any that ended so counts."""
        return any(
            abs(time - at) <= within and source in ("", ended)
            if ended in self.masters
            else abs(time - at) <= _UNKNOWN_ENDED_MS
            for ended, at in self.orderly.items()
        )

    def address(self, source: str) -> str:
        known = self.masters.get(source)
        return self.addresses.get(source) or (known.address if known else "")

    def at(self, address: str) -> str:
        """Source of the latest JobManager at an address, or the empty string."""
        there = [s for s in self.masters if address and self.address(s) == address]
        return max(there, key=lambda s: self.masters[s].began, default="")

    def may_lead(self, witness: TaskManagerView, address: str) -> bool:
        """Whether an address may be the JobManager's: the one this TaskManager registered with, or no TaskManager's."""
        if witness.address:
            return address == witness.address
        return not any(a == address and s in self.witnesses for s, a in self.addresses.items())

    def _cadence(self, event: LogEvent) -> CheckpointCadence:
        return setdefault_bounded(self.cadences, event.fields.get("job", ""), CheckpointCadence(), _MAX_JOBS)
