"""The root cause of a failure, and whether the failure is a fault of its own or a consequence of another.

Stack traces arrive a line at a time (`stack_traces.py`). A `RootCause` is what the lines so far have shown.
"""

import re

import msgspec

from detectors.flink.facts import Failure, JobFailureReported
from detectors.values.bounded import setdefault_bounded
from detectors.values.texts import cut

OF_WHOLE_JOB = frozenset({"job_state", "job_ended", "job_restarting", "global_failure"})
"""Types of failing lines that repeat for the whole job why a task failed."""

OF_JOBS = OF_WHOLE_JOB | {"task_state", "job_refused"}
"""Types of failing lines that show why tasks or jobs failed."""

_FAILING = frozenset({"FAILED", "FAILING", "RESTARTING", ""})
_MAX_SOURCES = 50
_MAX_FAULTS = 8
_MAX_TEXT = 200
_SAME_FAILURE_MS = 5_000

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
    `ends_job`: the line is about a failing task or job. `labelled`: only the labels of Flink's event are known, until a
    stack trace shows more.
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
    ends_job: bool = False
    labelled: bool = False

    def key(self) -> tuple[str, str, str]:
        """The parts that are the same when the fault occurs again: throwable, frame, message without variable parts."""
        return self.name, self.frame, _VARIABLE.sub("#", self.message)

    def description(self) -> str:
        message = cut(self.message, _MAX_TEXT)
        thrown = f"{self.name}: {message}" if message else self.name
        return f"{thrown} at {self.frame}" if self.frame else thrown


class RootCauses(msgspec.Struct, array_like=True):
    sources: dict[str, list[RootCause]] = {}

    def take(self, source: str, fact: Failure, time: int) -> None:
        """Take in a failure, or one more line of its stack trace."""
        known = setdefault_bounded(self.sources, source, [], _MAX_SOURCES)
        fault = next((f for f in known if f.id == fact.id), None)
        if fault is None:
            ends = fact.of in OF_JOBS and fact.state in _FAILING
            fault = RootCause(fact.id, time, "", "", attempt=fact.attempt, job=fact.job, ends_job=ends)
            known[:] = [*known[1 - _MAX_FAULTS :], fault]
        fault.name, fault.message, fault.frame = fact.name, fact.message[: 2 * _MAX_TEXT], fact.frame
        fault.first = fact.first[:_MAX_TEXT]
        role = role_of(fact.thrown)
        if role and (not fault.role or _RANK[role] < _RANK[fault.role]):
            fault.role = role

    def report(self, source: str, fact: JobFailureReported, time: int) -> None:
        """Take in the event of a failure. What the source's log shows of the same failure says more."""
        if fact.labels and self.before(source, time, within=_SAME_FAILURE_MS) is None:
            name = f"a failure with the labels {fact.labels}"[: 2 * _MAX_TEXT]
            fault = RootCause("", time, name, "", job=fact.job, ends_job=True, labelled=True)
            known = setdefault_bounded(self.sources, source, [], _MAX_SOURCES)
            known[:] = [*known[1 - _MAX_FAULTS :], fault]

    def of(self, source: str, fact: Failure) -> RootCause:
        """What is known of a failure that was taken in."""
        return next(f for f in self.sources[source] if f.id == fact.id)

    def before(self, source: str, time: int, attempt: str = "", within: int = 60_000) -> RootCause | None:
        """The failure that a line of this source is about: that of the attempt it names, else the last one."""
        # A line of a stack trace has only the time of its arrival, which may be after that of the next log line.
        known = [f for f in self.sources.get(source, ()) if f.ends_job and abs(time - f.time) <= within]
        named = [f for f in known if attempt and f.attempt == attempt]
        return named[-1] if named else known[-1] if known else None

    def of_job(self, source: str, job: str, time: int, within: int = 60_000) -> RootCause | None:
        """The last failure after a line that names this job."""
        known = [
            f for f in self.sources.get(source, ()) if f.ends_job and f.job == job and abs(time - f.time) <= within
        ]
        return known[-1] if known else None


def same(one: tuple[str, str, str], other: tuple[str, str, str]) -> bool:
    """Whether two keys are of the same fault: by its frame in user code, or by its message."""
    return one[0] == other[0] and ((one[1] != "" and one[1] == other[1]) or one[2] == other[2])


def role_of(text: str) -> str:
    """The role of a throwable: planned, process (one is lost), slots, restore, or "" for a fault of its own."""
    return next((role for role, pattern in _ROLES if pattern.search(text)), "")
