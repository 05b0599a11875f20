"""The first sentences of every advice that ends a job or one of its processes: how to keep the job's state.

By default Flink deletes the checkpoints of a job when the job is cancelled, and also when it fails for good. Anyone who
follows an advice at night must not lose state by it.
"""

KEEP_STATE = "Keep the state first"
"""The first words of such an advice. tests/unit/test_advice.py looks for them."""

_ANY_JOB = "JOB_ID"


def keep_state(job: str = "") -> str:
    """Return the sentences to put before an advice that cancels, stops or restarts something of `job`.

    >>> keep_state("7c77")[:60]
    'Keep the state first: unless GET /jobs/7c77/checkpoints/conf'
    """
    return (
        f"{KEEP_STATE}: unless GET /jobs/{job or _ANY_JOB}/checkpoints/config shows externalization.enabled "
        "true and delete_on_cancellation false, copy the job's whole checkpoint directory before you touch the job, "
        "because Flink deletes it when the job is cancelled or fails for good. "
    )


def about(job: str, advice: str) -> str:
    """Insert the job id, if known, into an advice that was written for any job."""
    return advice.replace(_ANY_JOB, job) if job else advice
