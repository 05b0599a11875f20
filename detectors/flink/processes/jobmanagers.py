"""The JobManagers of a cluster, and the TaskManagers connected to them, as known from logs."""

import msgspec

from detectors.events.event import Event
from detectors.flink import facts
from detectors.flink.calm import ENOUGH_SAMPLES
from detectors.incident import Evidence
from detectors.values.bounded import append_new, put_bounded, setdefault_bounded
from detectors.values.durations import LONG_AGO

MAX_RECORDS = 5
ONLY_JOBMANAGERS = (
    facts.CheckpointTriggered,
    facts.CheckpointFailed,
    facts.TaskManagerGone,
    facts.TaskManagerDisconnected,
    facts.TaskDeploying,
    facts.TasksRestarting,
    facts.SlotsMissing,
    facts.JobRestored,
)
"""Lines that only a JobManager writes, and that show nothing but that it is at work."""
_MAX_SOURCES = 200
_UNKNOWN_ENDED_MS = 60_000
_SAME_SCRAPE_MS = 500
_LATE_MS = 5_000
_LONGEST_MS = 300_000


class JobManagerProcess(msgspec.Struct, array_like=True):
    """A JobManager as its own log shows it. `began` and `last_seen` are event times of its start and last line.

    `scraped` is the event time of its last scrape, `every` the time in ms between its last two.
    """

    host: str = ""
    address: str = ""
    began: int = LONG_AGO
    last_seen: int = LONG_AGO
    scraped: int = LONG_AGO
    every: int = 0

    def measured(self, time: int) -> None:
        """Take in a scrape. The parts of one scrape may come one by one."""
        if time - self.scraped >= _SAME_SCRAPE_MS:
            self.every = time - self.scraped if self.scraped > LONG_AGO else 0
            self.scraped = time
        self.last_seen = max(self.last_seen, time)


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

    def complain(self, sign: str, since: int, time: int, within: int) -> None:
        """Note one way in which it lost contact. Signs more than `within` ms apart do not belong together."""
        self.marks = {k: t for k, t in self.marks.items() if abs(time - t) <= within}
        self.marks.setdefault(sign, since)

    def remember(self, record: Evidence, within: int, job: str, address: str) -> None:
        """Keep a record about the lost contact, and which job and JobManager it names."""
        self.job, self.suspect = job or self.job, address or self.suspect
        self.records = [r for r in self.records if abs(record.time - r.time) <= within]
        append_new(self.records, record, MAX_RECORDS)

    def stop(self, time: int) -> None:
        """Note a signal to it. What it complained of before proves nothing."""
        self.marks, self.stopped = {}, time

    def stopping(self, time: int) -> bool:
        """Whether it was about to end, so that its complaints prove nothing."""
        return 0 <= time - self.stopped <= _UNKNOWN_ENDED_MS


class JobManagers(msgspec.Struct, array_like=True):
    """Processes by source. `addresses` is of both kinds of process, `orderly` the event time of orderly ends.

    `unexplained` are those ends that no signal and no result of a job explains.
    """

    masters: dict[str, JobManagerProcess] = {}
    witnesses: dict[str, TaskManagerView] = {}
    addresses: dict[str, str] = {}
    orderly: dict[str, int] = {}
    yarn: bool = False
    unexplained: dict[str, int] = {}

    def measured(self, host: str, time: int) -> None:
        """Take in metrics of a JobManager, which prove that it is alive."""
        for master in self.masters.values():
            if master.host and master.host == host:
                master.measured(time)

    def silent_for(self, source: str, least: int) -> int:
        """The time in ms without a sign of life that shows that it is gone: `least`, or as long as three scrapes take.

        A JobManager that is scraped once in two minutes gives no other sign while no checkpoint is due.
        """
        master = self.named(source)
        return max(least, ENOUGH_SAMPLES * min(master.every, _LONGEST_MS)) if master is not None else least

    def next_scrape(self, source: str) -> int:
        """The event time by which its next scrape would have come if it is alive; 0 if it is not scraped."""
        master = self.named(source)
        return master.scraped + min(master.every, _LONGEST_MS) + _LATE_MS if master is not None and master.every else 0

    def started(self, event: Event, what: str, time: int) -> None:
        """Take in a start-up line, which says what a process is."""
        self.yarn = self.yarn or "YARN" in what.upper()
        known = self.masters.get(event.source)
        if known is not None and known.began >= time:
            return
        if "Entrypoint" in what or ("JobManager" in what and "TaskManager" not in what):
            put_bounded(self.masters, event.source, JobManagerProcess(event.host, "", time, time), _MAX_SOURCES)
            self.orderly.pop(event.source, None)
            self.addresses.pop(event.source, None)

    def listens(self, source: str, address: str) -> None:
        """Note the address of a process."""
        put_bounded(self.addresses, source, address, _MAX_SOURCES)

    def seen(self, event: Event, time: int) -> JobManagerProcess:
        """Take in a line that only a JobManager writes, and return that JobManager."""
        master = self.master(event)
        master.last_seen = max(master.last_seen, time)
        return master

    def leads(self, event: Event, address: str, time: int) -> JobManagerProcess:
        """Note that a JobManager leads, and return it."""
        master = self.seen(event, time)
        if time > master.began:
            master.began = time
            self.orderly.pop(event.source, None)
        master.address = address or master.address
        return master

    def master(self, event: Event) -> JobManagerProcess:
        """The JobManager that wrote a line, added if it is new."""
        return setdefault_bounded(self.masters, event.source, JobManagerProcess(event.host), _MAX_SOURCES)

    def named(self, source: str) -> JobManagerProcess | None:
        """The JobManager of a source. If the source is unknown, the only JobManager."""
        if source:
            return self.masters.get(source)
        return next(iter(self.masters.values())) if len(self.masters) == 1 else None

    def witness(self, source: str) -> TaskManagerView:
        """The TaskManager that wrote a line, added if it is new."""
        return setdefault_bounded(self.witnesses, source, TaskManagerView(), _MAX_SOURCES)

    def also_marked(self, sign: str, witness: TaskManagerView) -> bool:
        """Whether another TaskManager has lost contact in the same way."""
        return any(sign in other.marks for other in self.witnesses.values() if other is not witness)

    def forget_complaints(self) -> None:
        """What TaskManagers have written so far is about a JobManager that has been replaced."""
        for witness in self.witnesses.values():
            witness.marks, witness.records = {}, []

    def ends(self, source: str, time: int, explained: bool) -> None:
        """Note that a process ended in an orderly way, unless it has started again since."""
        known = self.masters.get(source)
        if known is not None and known.began > time:
            return
        if explained:
            self.unexplained.pop(source, None)
        elif not 0 <= time - self.orderly.get(source, LONG_AGO) <= _UNKNOWN_ENDED_MS:
            put_bounded(self.unexplained, source, time, _MAX_SOURCES)
        put_bounded(self.orderly, source, max(time, self.orderly.get(source, time)), _MAX_SOURCES)

    def died(self, source: str, time: int) -> None:
        """An error of its own shows that an end without a signal shortly before was not orderly."""
        if 0 <= time - self.unexplained.get(source, LONG_AGO) <= _UNKNOWN_ENDED_MS:
            del self.unexplained[source]
            self.orderly.pop(source, None)

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
