"""How a TaskManager ended, by the reason that Flink, YARN or Kubernetes gives."""

from typing import Literal

HowEnded = Literal["killed", "orderly", "lost", ""]

_KILLED = ("beyond the", "running beyond", "oomkilled", "exit code is 137", "exitcode=137")
_LOST = ("timed out", "no longer reachable", "exit code", "exitcode", "killing container", "pod terminated", "lost")
_ORDERLY = (
    "shutting down",
    "idle timeout",
    "stopping jobmaster",
    "leader changed",
    "lost leadership",
    "application status",
    "killed by the applicationmaster",
    "exitcode=0",
    "exitcode=143",
)


def end_of(reason: str) -> HowEnded:
    """Whether a process was killed, ended in an orderly way or was lost; empty if the reason does not show an end.

    >>> end_of("Pod terminated, exitCode=137"), end_of("TaskExecutor is shutting down"), end_of("Stopping JobMaster")
    ('killed', 'orderly', '')
    """
    text = reason.lower()
    if any(word in text for word in _KILLED):
        return "killed"
    if any(word in text for word in _ORDERLY):
        # The end of one job's JobMaster does not show that the process ended.
        return "" if "jobmaster" in text else "orderly"
    return "lost" if any(word in text for word in _LOST) else ""
