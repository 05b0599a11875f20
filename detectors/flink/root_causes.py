"""The root cause of a failure, and whether the failure is a fault of its own or a consequence of another.

Stack traces arrive a line at a time (`stack_traces.py`). A `RootCause` is what the lines so far have shown.
"""

import re

import msgspec

from detectors.events.event import LogEvent
from detectors.flink.topology import Topology
from detectors.values.bounded import setdefault_bounded

OF_WHOLE_JOB = frozenset({"job_state", "job_ended", "job_restarting", "global_failure"})
"""Types of failing lines that repeat for the whole job why a task failed."""

OF_JOBS = OF_WHOLE_JOB | {"task_state", "job_refused"}
"""Types of failing lines that show why tasks or jobs failed."""

_FAILING = frozenset({"FAILED", "FAILING", "RESTARTING", ""})
_MAX_SOURCES = 50
_MAX_FAULTS = 6
_MAX_TEXT = 200

_ROLES = (
    ("planned", re.compile(r"FlinkExpectedException|Task(?:Executor|Manager) is shutting down")),
    (
        "process",
        re.compile(
            r"RemoteTransportException|(?:by|at) remote task manager|PartitionNotFoundException"
            r"|[Hh]eartbeat of (?:Task|Job|Resource)Manager|is no longer reachable|RecipientUnreachable"
            r"|Disconnect from JobManager|lost leadership|JobManager (?:leader|responsible)|leader changed"
            r"|TaskManager was lost|The assigned slot \S+ was removed|Worker \S+ is terminated|Pod terminated"
            r"|[Cc]ontainer (?:released|killed|exited|\S+ (?:marked as failed|is lost))|container_\S+ is running"
            r"|ProducerFailedException|Connecting to remote task manager|AskTimeoutException|OOMKilled|preempted by"
        ),
    ),
    (
        "slots",
        re.compile(
            r"NoResourceAvailableException|Slot request bulk is not fulfillable|Not enough free slots available"
            r"|Could not acquire the minimum required resources|Could not allocate (?:enough slots|all requires slots)"
            r"|Could not fulfill resource requirements|Could not allocate the required slot"
        ),
    ),
    (
        "restore",
        re.compile(
            r"StateMigrationException|Cannot find (?:checkpoint or savepoint|meta ?data) file"
            r"|Failed to rollback to (?:checkpoint|savepoint)|Cannot map (?:checkpoint|savepoint|operator|state)"
            r"|Could not retrieve checkpoint|Could not restore (?:\w+ )*(?:state )?backend|Unable to restore \w+ state"
            r"|Failed when trying to restore|Failed to download data for state handles"
            r"|Can ?not restore (?:vertex|state)"
            r"|[Ss]avepoint (?:file|directory|path)\b.*\b(?:not exist|not found|[Cc]annot|[Cc]ould not)"
            r"|serializer .*(?:must not be|is) incompatible|Could not (?:load|read) (?:checkpoint|savepoint)"
            r"|Unsupported savepoint version|Incompatible format of savepoint"
        ),
    ),
)
"""Roles of a failure by the throwables anywhere in its chain. The first that matches applies."""
_RANK = {role: rank for rank, (role, _) in enumerate(_ROLES)}
CONSEQUENCES = frozenset({"planned", "process", "slots"})
"""Roles of failures that another finding explains, or that are not faults."""

_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|\b[0-9a-f]{8,}\b|\d+")


class RootCause(msgspec.Struct, array_like=True):
    """One failure: class and message of its deepest cause, first frame in user code, `role` ("": a fault of its own).

    `attempt` and `job` are those of the failing line, empty if it names none. `first` is the outermost throwable.
    """

    id: str
    time: int
    name: str
    message: str
    frame: str = ""
    role: str = ""
    attempt: str = ""
    job: str = ""
    first: str = ""

    def key(self) -> tuple[str, str, str]:
        """The parts that are the same when the fault occurs again: throwable, frame, message without variable parts."""
        return self.name, self.frame, _VARIABLE.sub("#", self.message)

    def description(self) -> str:
        message = self.message if len(self.message) <= _MAX_TEXT else self.message[:_MAX_TEXT].rstrip() + "…"
        thrown = f"{self.name}: {message}" if message else self.name
        return f"{thrown} at {self.frame}" if self.frame else thrown


class RootCauses(msgspec.Struct, array_like=True):
    sources: dict[str, list[RootCause]] = {}

    def take(self, event: LogEvent, time: int) -> RootCause | None:
        """Take in one `failure` event. Returns None if it is not about a failing task or job."""
        fields = event.fields
        if fields["of"] not in OF_JOBS or fields.get("state", "") not in _FAILING:
            return None
        known = setdefault_bounded(self.sources, event.source, [], _MAX_SOURCES)
        fault = next((f for f in known if f.id == fields["id"]), None)
        if fault is None:
            fault = RootCause(fields["id"], time, "", "", attempt=fields.get("attempt", ""), job=fields.get("job", ""))
            known[:] = [*known[1 - _MAX_FAULTS :], fault]
        deepen(fault, event)
        return fault

    def before(self, source: str, time: int, attempt: str = "", within: int = 60_000) -> RootCause | None:
        """The failure that a line of this source is about: that of the attempt it names, else the last one."""
        # A line of a stack trace has only the time of its arrival, which may be after that of the next log line.
        known = [f for f in self.sources.get(source, ()) if abs(time - f.time) <= within]
        named = [f for f in known if attempt and f.attempt == attempt]
        return named[-1] if named else known[-1] if known else None

    def of_job(self, source: str, job: str, time: int, within: int = 60_000) -> RootCause | None:
        """The last failure after a line that names this job."""
        known = [f for f in self.sources.get(source, ()) if f.job == job and abs(time - f.time) <= within]
        return known[-1] if known else None


def deepen(fault: RootCause, event: LogEvent) -> None:
    fields = event.fields
    fault.name, fault.message, fault.frame = fields["class"], fields["message"][: 2 * _MAX_TEXT], fields["frame"]
    fault.first = fields["first"][:_MAX_TEXT]
    role = role_of(f"{fault.name}: {fault.message}")
    if role and (not fault.role or _RANK[role] < _RANK[fault.role]):
        fault.role = role


def same(one: tuple[str, str, str], other: tuple[str, str, str]) -> bool:
    """Whether two keys are of the same fault: by its frame in user code, or by its message."""
    return one[0] == other[0] and ((one[1] != "" and one[1] == other[1]) or one[2] == other[2])


def role_of(text: str) -> str:
    """The role of a throwable: planned, process (one is lost), slots, restore, or "" for a fault of its own."""
    return next((role for role, pattern in _ROLES if pattern.search(text)), "")


def job_of(event: LogEvent, topology: Topology) -> str:
    """The job that a JobManager's line is about, or the empty string, also for a TaskManager's line."""
    if event.fields.get("job"):
        return event.fields["job"]
    if event.source in topology.tm_of_source:
        return ""
    return topology.job_of_source.get(event.source) or topology.only_job()[0]
