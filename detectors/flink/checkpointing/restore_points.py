"""From what each job can be restored: its newest completed checkpoint, or what it was last restored from.

Flink's line of a completed checkpoint has no path. The directory is known from the line of the job's checkpoint
storage, from a checkpoint of the same job that was restored, or from the configuration printed at the start.
"""

import re

import msgspec

from detectors.flink.facts import CheckpointCompleted, CheckpointDirectorySet, CheckpointStorageSet, JobRestored
from detectors.incident import RestorePoint
from detectors.values.bounded import setdefault_bounded

_MAX_JOBS = 200
_MAX_PATH = 300
_JOB_ID = re.compile(r"[0-9a-f]{32}")


class JobRestorePoint(msgspec.Struct, array_like=True):
    """One job: its newest checkpoint since it was restored from `origin` (-1: none), when it completed or was restored
    (event time), and the `directory` of its checkpoints.
    """

    completed: int = -1
    at: int = 0
    directory: str = ""
    origin: str = ""


class RestorePoints(msgspec.Struct, array_like=True):
    """Those of all jobs of a cluster. `directory` is the configured one, which has a directory for each job."""

    directory: str = ""
    jobs: dict[str, JobRestorePoint] = {}

    def take(self, job: str, fact: object, time: int) -> None:
        """Take in a fact about a job, which is empty if none is known."""
        match fact:
            case CheckpointDirectorySet():
                self.directory = _path(fact.directory)
            case CheckpointStorageSet() if _JOB_ID.fullmatch(job) and (base := _path(fact.directory)):
                self._of(job).directory = f"{base}/{job}"
            case JobRestored() if path := _path(fact.path):
                own = self._of(job)
                own.completed, own.at, own.origin = -1, time, path
                directory, checkpoint, _ = path.rpartition("/chk-")
                if checkpoint and job in directory:
                    own.directory = directory
            case CheckpointCompleted() if not fact.savepoint:
                own = self._of(job)
                own.completed, own.at = fact.number, time

    def newest(self, job: str, retained: bool) -> RestorePoint | None:
        """From what a job can be restored; `retained`: the configuration keeps checkpoints of cancelled jobs."""
        own = self.jobs.get(job)
        if own is None or (own.completed < 0 and not own.origin):
            return None
        if own.completed < 0:
            _, checkpoint, number = own.origin.rpartition("/chk-")
            kept = retained or not checkpoint
            return RestorePoint(own.at, own.origin, int(number) if number.isdecimal() else -1, kept, restored=True)
        base = f"{self.directory}/{job}" if self.directory and _JOB_ID.fullmatch(job) else ""
        directory = own.directory or base
        path = f"{directory}/chk-{own.completed}" if directory else ""
        return RestorePoint(own.at, path, own.completed, retained)

    def _of(self, job: str) -> JobRestorePoint:
        return setdefault_bounded(self.jobs, job, JobRestorePoint(), _MAX_JOBS)


def _path(text: str) -> str:
    """A path as Flink prints it; empty if it is none, such as that of a checkpoint which is kept in memory."""
    path = text.strip().rstrip("/")
    return path if "/" in path and len(path) <= _MAX_PATH else ""
