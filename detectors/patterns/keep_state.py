"""What every advice says first that ends a job or one of its processes: how to keep the job's state.

By default Flink deletes the checkpoints of a job when it is cancelled, and also when it fails for good. Someone who
follows an advice at night must not lose the state by it.
"""

KEEP_STATE = "Keep the state first"
"""How such an advice begins; tests/unit/test_advice.py looks for it."""

_ANY_JOB = "JOB_ID"


def keep_state(job: str = "") -> str:
    """The sentences to put in front of an advice that cancels, stops or restarts something of `job`.

    >>> keep_state("7c77")[:59]
    'Keep the state first: GET /jobs/7c77/checkpoints/config sho'
    """
    return (
        f"{KEEP_STATE}: GET /jobs/{job or _ANY_JOB}/checkpoints/config shows whether Flink retains checkpoints "
        "(externalization). If it does not, it deletes them when the job is cancelled or fails for good, so copy the "
        "job's whole checkpoint directory before you touch the job. "
    )


def about(job: str, advice: str) -> str:
    """An advice that was written for any job, with the id of the one it is about, where that is known."""
    return advice.replace(_ANY_JOB, job) if job else advice
