"""Lines of jobs that fail, as a JobManager writes them, for the tests of what is made of them."""

from detectors.events.event import Event
from detectors.incident import Transition
from tests.unit.detectors.streams import START, in_order, log, run

JOB, OTHER = "a" * 32, "b" * 32
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
USER = ("java.lang.IllegalStateException", "cannot parse order 17", "com.example.Parse.map(Parse.java:28)")
PLANNED = ("org.apache.flink.util.FlinkExpectedException", "The TaskExecutor is shutting down.", "")
LOST = ("java.util.concurrent.TimeoutException", "The heartbeat of TaskManager with id tm-1:1-a timed out.", "")
NO_SLOTS = (
    "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException",
    "Could not acquire the minimum required resources.",
    "",
)
Thrown = tuple[str, str, str]


class Lines:
    """A JobManager's log: lines in order, each with an offset of its own, so that stacks can be told apart."""

    def __init__(self, source: str = "jm") -> None:
        self.source = source
        self.events: list[Event] = []

    def say(self, event_type: str, at: int, **fields: str) -> None:
        """One line at `at` ms."""
        self.events.append(log(event_type, at, len(self.events), self.source, **fields))

    def stack(self, at: int, *chain: Thrown) -> None:
        """A throwable with its causes, each with at most one frame of the user's own."""
        for number, (name, message, frame) in enumerate(chain):
            caused = {"caused": "yes"} if number else {}
            self.say("thrown", at, **{"class": name, "message": message}, **caused)
            if frame:
                self.say("frame", at, frame=frame)

    def task_failed(self, at: int, *chain: Thrown, subtask: int = 1, attempt: str = "", **place: str) -> None:
        """A task goes to FAILED, and why."""
        task = {"task": "map", "subtask": str(subtask), "parallelism": "2", "before": "RUNNING", "state": "FAILED"}
        self.say("task_state", at, **task, attempt=attempt or f"{at:032x}", **place)
        self.stack(at, *chain)

    def state(self, at: int, new: str, before: str = "RUNNING", job: str = JOB, name: str = "orders") -> None:
        """The job's state."""
        self.say("job_state", at, job=job, name=name, before=before, state=new)

    def restart(self, at: int, *chain: Thrown, job: str = JOB, delay: int = 500) -> None:
        """A task fails, and the job restarts, as Flink ≥ 1.10 writes it."""
        attempt = f"{at:032x}"
        self.task_failed(at, *chain, attempt=attempt)
        self.say("tasks_restarting", at + 1, failed=attempt)
        self.state(at + 1, "RESTARTING", job=job)
        self.state(at + 1 + delay, "RUNNING", "RESTARTING", job=job)

    def done(self, at: int, number: int = 1, job: str = JOB) -> None:
        """A checkpoint completes."""
        self.say("checkpoint_completed", at, checkpoint=str(number), job=job, bytes="1", duration="100")


def said(*lines: Lines, until: int = HOUR) -> list[Transition]:
    """What a replay says of these logs, the clock running on to `until`."""
    return run(in_order([e for own in lines for e in own.events]), until=START + until)


def causes(*lines: Lines, until: int = HOUR) -> list[str]:
    """Causes of the incidents that are opened."""
    return [t.cause for t in said(*lines, until=until) if t.transition == "opened"]
