"""Which job an attempt of a task belongs to, in a JobManager's log that has the lines of several jobs.

Lines about tasks name no job. The last job that the log named before one of them is often another one, whose checkpoint
was triggered in the same millisecond. Since Flink 1.16 the id of an attempt begins with that of its execution graph,
which a job keeps as long as its JobMaster lives, and the tasks of a graph are scheduled when the job becomes RUNNING.
"""

import msgspec

from detectors.flink.facts import Fact, JobStateChanged, TaskDeploying, TaskStateChanged
from detectors.values.bounded import put_bounded

_MAX_GRAPHS = 400
_MAX_SOURCES = 500
_AT_ONCE_MS = 1_000


class StartedJob(msgspec.Struct, array_like=True):
    """The last job of a source that became RUNNING, the event time, and whether another one had done so at once."""

    job: str
    time: int
    shared: bool = False


class ExecutionGraphs(msgspec.Struct, array_like=True):
    """The jobs by id of their execution graph, and the job that has started last by source."""

    jobs: dict[str, str] = {}
    started: dict[str, StartedJob] = {}

    def take(self, source: str, fact: Fact, time: int) -> None:
        """Take in a line of a JobManager. A graph that begins while two jobs start is not known."""
        if isinstance(fact, JobStateChanged):
            if fact.state == "RUNNING":
                before = self.started.get(source)
                shared = before is not None and before.job != fact.job and abs(time - before.time) <= _AT_ONCE_MS
                put_bounded(self.started, source, StartedJob(fact.job, time, shared), _MAX_SOURCES)
        elif isinstance(fact, TaskDeploying | TaskStateChanged):
            graph, started = _graph(fact.attempt), self.started.get(source)
            if not graph or graph in self.jobs or started is None or started.shared:
                return
            if 0 <= time - started.time <= _AT_ONCE_MS:
                put_bounded(self.jobs, graph, started.job, _MAX_GRAPHS)

    def job_of(self, attempt: str) -> str:
        """The job of an attempt; empty if it is not known."""
        return self.jobs.get(_graph(attempt), "")


def _graph(attempt: str) -> str:
    """The execution graph's id; empty for the ids of attempts before Flink 1.16, which have no parts."""
    graph, separator, _ = attempt.partition("_")
    return graph if separator else ""
