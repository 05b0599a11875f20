"""What a line of Flink, YARN or Kubernetes says, as a typed fact. Detectors get facts, never the parts of a line.

`fact_of` makes the fact of a `LogEvent`. A field is read from the named group of the same name in `events/vocabulary`,
unless `name=` gives another one. A field with a default is missing in the wording of some versions.
"""

from collections.abc import Callable
from typing import ClassVar, Literal, TypeVar, get_args

import msgspec
from msgspec import field

from detectors.events.event import LogEvent
from detectors.events.vocabulary.match import match_anywhere
from detectors.flink.job_states import ENDED
from detectors.flink.processes.process_ends import HowEnded, end_of
from detectors.incident import Evidence, Severity
from detectors.values.one_word import name_of

FAILURE = "failure"
"""The event type of a failing line joined with its stack trace (`stack_traces.py`)."""


class Fact(msgspec.Struct, frozen=True):
    """The base of all facts."""


F = TypeVar("F", bound=type[Fact])
Q = TypeVar("Q", bound=Fact)
_FACTS: dict[str, tuple[type[Fact], dict[str, str]]] = {}
_TYPES: dict[type[Fact], list[str]] = {}


def _from_lines(*event_types: str, **parts: str) -> Callable[[F], F]:
    """The fact is made from lines of these event types; `parts` are fields that follow from the type."""

    def register(fact: F) -> F:
        _FACTS.update(dict.fromkeys(event_types, (fact, parts)))
        _TYPES.setdefault(fact, []).extend(event_types)
        return fact

    return register


def event_types(fact: type[Fact]) -> list[str]:
    """The event types of the lines that a fact is made from."""
    return _TYPES[fact]


def fact_of(event: LogEvent) -> Fact | None:
    """The fact that a line states; None for a line of a stack trace, which is joined first."""
    return _made(event.event_type, event.fields)


def _made(event_type: str, fields: dict[str, str]) -> Fact | None:
    found = _FACTS.get(event_type)
    if found is None:
        return None
    fact, parts = found
    return msgspec.convert({**fields, **parts} if parts else fields, fact, strict=False)


def quoted_fact(text: str, kind: type[Q]) -> Q | None:
    """The fact of this kind that is quoted anywhere in a text."""
    found = match_anywhere(text)
    quoted = _made(*found) if found is not None else None
    return quoted if isinstance(quoted, kind) else None


# Checkpoints


@_from_lines("checkpoint_triggered")
class CheckpointTriggered(Fact, frozen=True):
    """A checkpoint or savepoint has begun. `epoch` is the JobManager's time in ms.

    `unseen` are the checkpoints before it whose end no line has shown.
    """

    number: int = field(name="checkpoint")
    epoch: int = -1
    type: str = ""
    unseen: tuple[int, ...] = ()

    @property
    def savepoint(self) -> bool:
        """Whether it is a savepoint: its duration says nothing about checkpoints."""
        return "savepoint" in self.type.lower()


@_from_lines("checkpoint_completed")
@_from_lines("checkpoint_completed_for_source", for_source="true")
class CheckpointCompleted(Fact, frozen=True):
    """A checkpoint or savepoint has completed. `duration` is in ms, -1 if neither the line nor a trigger shows it.

    `seen`: its trigger was seen, and shows whether it is a `savepoint`. `restored`: it is the first since a restore.
    `for_source`: the coordinator of a source has noted it, which is news only if the line before it was lost.
    """

    number: int = field(name="checkpoint")
    duration: int = -1
    bytes: int = -1
    for_source: bool = False
    seen: bool = False
    savepoint: bool = False
    restored: bool = False


@_from_lines("checkpoint_expired", how="expired")
@_from_lines("checkpoint_declined", how="declined")
@_from_lines("checkpoint_failed", how="failed")
class CheckpointFailed(Fact, frozen=True):
    """A checkpoint has expired, was declined by a task, or could not be triggered or completed.

    `triggered` is the record of its trigger if it was in progress, `again`: an earlier line states it too.
    """

    number: int = field(name="checkpoint")
    how: Literal["expired", "declined", "failed"]
    triggered: Evidence | None = None
    since: int = -1
    savepoint: bool = False
    again: bool = False

    @property
    def expired(self) -> bool:
        """Whether it reached the checkpoint timeout."""
        return self.how == "expired"


@_from_lines("checkpoint_not_triggered")
class CheckpointNotTriggered(Fact, frozen=True):
    """A checkpoint or savepoint has failed before it had a number."""

    job: str


@_from_lines("savepoint_requested")
class SavepointRequested(Fact, frozen=True):
    """Someone asks for a savepoint. The line of its trigger follows."""

    job: str


@_from_lines("stop_with_savepoint_failed")
class StopWithSavepointFailed(Fact, frozen=True):
    """A job that was to stop with a savepoint has not ended as it should."""

    job: str = ""


@_from_lines("checkpoint_acked_late")
class CheckpointAckedLate(Fact, frozen=True):
    """A subtask has acknowledged a checkpoint after its end. Since Flink 1.10 the line names the TaskManager."""

    number: int = field(name="checkpoint")
    attempt: str
    tm: str = ""
    host: str = ""


@_from_lines("checkpoint_abort_noticed")
class CheckpointAbortNoticed(Fact, frozen=True):
    """A task was notified that a checkpoint is aborted whose barrier it has not seen."""

    number: int = field(name="checkpoint")


@_from_lines("checkpoints_stopped")
class CheckpointsStopped(Fact, frozen=True):
    """The checkpoint coordinator of a job has stopped."""


@_from_lines("checkpoint_timeout_set")
class CheckpointTimeoutSet(Fact, frozen=True):
    """The configuration printed at the start sets the checkpoint timeout."""

    value: str


@_from_lines("checkpoint_directory_set")
class CheckpointDirectorySet(Fact, frozen=True):
    """The configuration printed at the start sets the directory of all checkpoints."""

    directory: str


@_from_lines("checkpoint_storage_set")
class CheckpointStorageSet(Fact, frozen=True):
    """A job that is being started, or one of its tasks, will write its checkpoints to a directory."""

    directory: str


@_from_lines("offset_commit_disabled", how="disabled")
@_from_lines("offset_commit_failed", how="failed")
class OffsetsNotCommitted(Fact, frozen=True):
    """A Kafka source does not commit its offsets: it failed to, or it is configured so."""

    how: Literal["disabled", "failed"]


@_from_lines("transaction_fenced", how="fenced")
@_from_lines("transaction_perhaps_fenced", how="perhaps_fenced")
@_from_lines("transaction_aborted", how="aborted")
@_from_lines("transaction_failed", how="failed")
class TransactionNotCommitted(Fact, frozen=True):
    """A Kafka sink could not commit a transaction of a completed checkpoint. `timeout` is its timeout in ms, or 0.

    `perhaps_fenced`: in a recovery this may mean that the transaction was committed before.
    """

    how: Literal["fenced", "perhaps_fenced", "aborted", "failed"]
    timeout: int = 0


@_from_lines("transaction_timeout_set")
class TransactionTimeoutSet(Fact, frozen=True):
    """The transaction timeout in ms of a Kafka producer, which may have no transactions."""

    timeout: int


@_from_lines("producer_transactional")
class ProducerTransactional(Fact, frozen=True):
    """The Kafka producer whose settings are printed has transactions."""


@_from_lines("broker_not_reached")
class BrokerNotReached(Fact, frozen=True):
    """A Kafka client could not connect to a broker. `address` is as Kafka prints it: host/ip:port, or only one of both.

    `client` is what the client calls itself. Where only the connection timed out, the line has a node's number alone.
    """

    client: str
    node: str = ""
    address: str = ""

    @property
    def broker(self) -> str:
        """The broker in words: host and port, or its number."""
        host, _, ip = self.address.rpartition("/")
        return f"{host}:{ip.rpartition(':')[2]}" if host else ip or f"node {self.node}"


# Jobs and tasks


@_from_lines("job_state", "job_ended")
class JobStateChanged(Fact, frozen=True):
    """A job has another state. The dispatcher's line about the end of a job names neither `before` nor `name`."""

    job: str
    state: str
    before: str = ""
    name: str = ""

    @property
    def ended(self) -> bool:
        """Whether the job does not leave this state."""
        return self.state in ENDED


@_from_lines("job_failure_reported")
class JobFailureReported(Fact, frozen=True):
    """Flink's event of a job's failure. `restarts`: the job will restart. `labels` are those of failure enrichers."""

    job: str
    restarts: bool = False
    labels: str = ""


@_from_lines("all_subtasks_status")
class SubtasksStatusChanged(Fact, frozen=True):
    """All subtasks of a streaming job run or have finished, or that is no longer so."""

    job: str
    status: str

    @property
    def all_run(self) -> bool:
        return self.status == "ALL_RUNNING_OR_FINISHED"


@_from_lines("job_initializing")
class JobInitializing(Fact, frozen=True):
    """A JobManager begins with a job."""

    job: str
    name: str


@_from_lines("job_restored")
class JobRestored(Fact, frozen=True):
    """A job starts from a checkpoint or savepoint. Until Flink 1.8 the line may name no job, until 1.10 no path."""

    job: str = ""
    path: str = ""


@_from_lines("nothing_restored")
class NothingRestored(Fact, frozen=True):
    """A job starts, and no checkpoint was found to start from."""


@_from_lines("tasks_restarting")
class TasksRestarting(Fact, frozen=True):
    """Tasks are to be restarted because the attempt `failed` has failed."""

    failed: str = ""


@_from_lines("job_restarting")
class JobRestarting(Fact, frozen=True):
    """The adaptive scheduler restarts a job."""


@_from_lines("global_failure")
class GlobalFailure(Fact, frozen=True):
    """A whole job is to be restarted."""


@_from_lines("job_refused")
class JobRefused(Fact, frozen=True):
    """A job could not be submitted."""

    job: str


@_from_lines("task_deploying")
class TaskDeploying(Fact, frozen=True):
    """A subtask is deployed to a TaskManager, which versions before 1.9 do not name."""

    task: str
    subtask: int
    host: str
    tm: str = ""
    attempt: str = ""


@_from_lines("task_state")
class TaskStateChanged(Fact, frozen=True):
    """A subtask has another state."""

    task: str
    subtask: int
    attempt: str
    state: str


@_from_lines(FAILURE)
class Failure(Fact, frozen=True):
    """A failing line with what is known of its throwable so far; the last one of a stack trace has the root cause.

    `of` is the event type of the failing line (empty if it has none), `id` its address topic/partition/offset. `name`
    and `message` are those of the deepest cause, `first` both of the outermost throwable, `frame` the first frame in
    user code. The others are what the failing line itself names. `again`: a line of the stack trace may have been sent
    again, and then it is not known to which failing line it belongs.
    """

    of: str
    id: str
    name: str = field(name="class")
    message: str
    first: str = ""
    frame: str = ""
    job: str = ""
    state: str = ""
    attempt: str = ""
    number: int = field(name="checkpoint", default=-1)
    tm: str = ""
    host: str = ""
    again: str = ""

    @property
    def thrown(self) -> str:
        """Class and message of the deepest cause."""
        return f"{self.name}: {self.message}"


@_from_lines("slots_wanted", refused="")
@_from_lines("slots_refused", refused="yes")
class SlotsMissing(Fact, frozen=True):
    """The ResourceManager has too few slots; `refused`: it has given up on the request."""

    refused: str
    job: str = ""


# TaskManagers


@_from_lines("tm_registered")
class TaskManagerRegistered(Fact, frozen=True):
    """A TaskManager has registered. Until Flink 1.8 the line names its host and address."""

    tm: str
    host: str = ""


@_from_lines("tm_timed_out", why="its heartbeat timed out")
@_from_lines("tm_unreachable", why="it is no longer reachable")
@_from_lines("tm_terminated", why="its actor system ended")
class TaskManagerGone(Fact, frozen=True):
    """A TaskManager is gone. Its actor system's line has only the address, the other lines only the id."""

    how: ClassVar[HowEnded] = "lost"
    why: str
    tm: str = ""
    address: str = ""

    @property
    def tms(self) -> tuple[str, ...]:
        return (self.tm or self.address,)


@_from_lines("tm_closed")
class TaskManagerDisconnected(Fact, frozen=True):
    """The connection to a TaskManager was closed, or its worker has ended, for a reason in words."""

    tm: str
    reason: str

    @property
    def tms(self) -> tuple[str, ...]:
        return (self.tm,)

    @property
    def how(self) -> HowEnded:
        return end_of(self.reason)

    @property
    def why(self) -> str:
        return self.reason.rstrip(". ")


@_from_lines("tm_connection_closed")
class PeerConnectionClosed(Fact, frozen=True):
    """A TaskManager's peer saw its data connection close."""

    address: str
    tm: str = ""

    @property
    def tms(self) -> tuple[str, ...]:
        return (self.tm or self.address,)


@_from_lines("rpc_gated")
class AddressGated(Fact, frozen=True):
    """Flink's RPC library could not reach an address and waits before it tries again."""

    address: str

    @property
    def tms(self) -> tuple[str, ...]:
        return (self.address,)


@_from_lines("container_over_limit")
class ContainerOverLimit(Fact, frozen=True):
    """YARN kills a container for its memory use, such as "3.0 GB of 3 GB"."""

    tm: str
    physical: str = "all"
    virtual: str = ""
    which: str = "physical"

    @property
    def used(self) -> str:
        """What was used, in words."""
        which = self.which.lower()
        return f"{(self.virtual if which == 'virtual' else '') or self.physical} {which} memory used"


# Processes


@_from_lines("process_version")
class ProcessStarted(Fact, frozen=True):
    """A process starts: what it is in words, and Flink's version."""

    what: str
    version: str


@_from_lines("tm_started")
class TaskManagerStarted(Fact, frozen=True):
    """A TaskManager starts and names its id."""

    tm: str


@_from_lines("rpc_started")
class RpcStarted(Fact, frozen=True):
    """A process listens at an address."""

    address: str = ""


@_from_lines("process_signalled")
class ProcessSignalled(Fact, frozen=True):
    """A process received a signal to stop: its TaskManager, those of its host, or else the whole cluster ends."""

    why: ClassVar[str] = "it received a signal to stop"
    signal: int
    tms: tuple[str, ...] = ()
    how: HowEnded = "orderly"


@_from_lines("cluster_ending")
class ClusterEnding(Fact, frozen=True):
    """A cluster ends, on request, because its job has ended, or (`how` is empty) because its JobManager dies."""

    why: ClassVar[str] = "the cluster has ended"
    tms: ClassVar[tuple[str, ...]] = ()
    status: str = ""
    how: HowEnded = "orderly"


ProcessEnd = TaskManagerGone | TaskManagerDisconnected | ProcessSignalled | ClusterEnding
"""Processes have ended: the TaskManagers `tms` (an id or, where the line has no more, an address), or without any the
whole cluster. `how` and `why`, as far as the line and the lines before it (`dying_processes.py`) show it."""
PROCESS_ENDS = get_args(ProcessEnd)


@_from_lines("process_fatal")
class ProcessFatal(Fact, frozen=True):
    """A process stops because a thread threw an exception that no one caught."""


@_from_lines("native_line")
class HelperLine(Fact, frozen=True):
    """A line that a native helper sent through a pipe, with the time of writing."""

    written: str


# JobManagers and leader election


@_from_lines("jm_fatal")
class JobManagerFatal(Fact, frozen=True):
    """A JobManager stops because of a fatal error."""


@_from_lines("leader_granted")
class LeadershipGranted(Fact, frozen=True):
    """A JobManager leads."""

    address: str = ""


@_from_lines("jm_address")
class JobManagerFound(Fact, frozen=True):
    """A TaskManager has registered at this JobManager."""

    address: str


@_from_lines("jm_timed_out", sign="heartbeat")
@_from_lines("jm_unreachable", sign="unreachable")
@_from_lines("jm_leader_lost", sign="leader")
class JobManagerMissed(Fact, frozen=True):
    """A TaskManager has lost contact with its JobManager (`peer`: JobManager or ResourceManager)."""

    sign: str
    peer: str = ""
    job: str = ""


@_from_lines("jm_unresolved")
class JobManagerUnresolved(Fact, frozen=True):
    """A TaskManager cannot connect to the address of its ResourceManager, and tries again."""

    address: str = ""


@_from_lines("jm_closed", "jm_silent")
class JobManagerDisconnected(Fact, frozen=True):
    """A TaskManager closes its connection to a job's JobManager, or the JobManager at an address did not answer."""

    job: str = ""
    address: str = ""


@_from_lines("registration_timed_out")
class RegistrationTimedOut(Fact, frozen=True):
    """A TaskManager gives up because it could not register anywhere for so long, as Flink prints it."""

    duration: str


@_from_lines("ha_lock_failed", level="lock")
@_from_lines("ha_suspended", level="suspended")
@_from_lines("leader_revoked", level="revoked")
@_from_lines("ha_lost", level="lost")
@_from_lines("ha_gave_up", level="gave_up")
class LeaderElectionTrouble(Fact, frozen=True):
    """A process has trouble with the store of the leader election."""

    level: Literal["lock", "suspended", "revoked", "lost", "gave_up"]


@_from_lines("ha_connected")
class LeaderElectionConnected(Fact, frozen=True):
    """A process is connected to ZooKeeper."""


@_from_lines("ha_session")
class SessionTimeout(Fact, frozen=True):
    """The session timeout in ms that ZooKeeper has granted."""

    session: int


@_from_lines("configured")
class Configured(Fact, frozen=True):
    """A setting printed at the start."""

    key: str
    value: str


# Nodes


@_from_lines("node_lost")
class NodeExpired(Fact, frozen=True):
    """A node did not answer for `missing_s` seconds (0: unknown) and is given up."""

    node: str
    missing_s: int = field(name="silent", default=0)


@_from_lines("node_back")
class NodeBack(Fact, frozen=True):
    """A node takes part again."""

    node: str


@_from_lines("container_killed")
class ContainerKilled(Fact, frozen=True):
    """YARN has killed a container."""

    container: str


@_from_lines("am_expired")
class ApplicationMasterExpired(Fact, frozen=True):
    """YARN received no heartbeat of an application attempt for `missing_s` seconds."""

    attempt: str
    missing_s: int = field(name="silent")


@_from_lines("kubernetes_event")
class KubernetesEvent(Fact, frozen=True):
    """Something happened to an object of Kubernetes: its severity (Warning or Normal) and reason.

    `target` is the object's namespace and name, `times` how often it was seen within `spread` seconds.
    """

    severity: str
    happened: str
    object: str
    target: str
    times: int
    spread: int
    note: str


# flinkwatch itself


@_from_lines("input_lost", lost="retention")
@_from_lines("input_began_again", lost="recreated")
class InputLost(Fact, frozen=True):
    """Unread records are gone from a partition before offset `until`: by retention, or with a deleted topic."""

    topic: str
    partition: int
    lost: Literal["retention", "recreated"]
    count: int = 0
    until: int = 0


@_from_lines("input_read_up")
class InputReadUp(Fact, frozen=True):
    """A partition has been read to its end."""

    topic: str
    partition: int


@_from_lines("shared_resource_fails")
class SharedResourceFails(Fact, frozen=True):
    """An incident of a cluster, open since `epoch` (ms), is about resources that other clusters may use too."""

    incident: str
    epoch: int
    level: str = field(name="severity")
    about: str = field(name="resources")
    of: str = field(name="cluster")

    @property
    def severity(self) -> Severity:
        return "critical" if self.level == "critical" else "warning"

    @property
    def cluster(self) -> str:
        return name_of(self.of)

    @property
    def resources(self) -> list[str]:
        """Such as `broker/kafka-1:9092`."""
        return [name_of(name) for name in self.about.split(",")]


@_from_lines("shared_resource_works")
class SharedResourceWorks(Fact, frozen=True):
    """That incident has ended, or is about something else."""

    incident: str
