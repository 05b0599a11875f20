"""The base of detectors that follow the tasks or sources of a job and have at most one open finding for each job."""

from typing import Any

from detectors.detector import JobDetector, on
from detectors.flink import facts
from detectors.flink.job_states import ENDING


class UntilJobEnds(JobDetector, without_deadlines=True):
    """Closes the finding of a job that ends, the field `open` of the job's state, and forgets the job."""

    @on(facts.JobStateChanged)
    def job_changed(self, job: Any, fact: facts.JobStateChanged) -> None:
        if fact.state not in ENDING:
            self.job_continues(job, fact)
            return
        if job.own.open is not None:
            self.close_open(job, job.own.open, f"the job is {fact.state}")
        job.forget()

    def job_continues(self, job: Any, fact: facts.JobStateChanged) -> None:
        """The job has another state and does not end."""

    def close_open(self, job: Any, found: Any, why: str) -> None:
        """Close the open finding of a job."""
        raise NotImplementedError
