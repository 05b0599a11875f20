"""A job cannot be deployed, because its TaskManagers have too few network buffers.

Opens at `IOException: Insufficient number of network buffers` and `Timeout triggered when requesting exclusive buffers`
(a task gets too few), and at `OutOfMemoryError: Could not allocate enough memory segments for NetworkBufferPool` (a
TaskManager cannot even allocate its network memory, and ends). One finding for each job, or for the host if no job is
known, with what was required and what is there. Resolved when a checkpoint completes `recovered_after` the last sign or
twice as long as the signs were apart, when a job without checkpoints has been RUNNING for `running_for`, or when the
job ends.

Why it matters: no restart helps, because each needs as many buffers. It usually follows a higher parallelism, more
slots for each TaskManager, or a second job in a session cluster. `restart_loop`, `job_failed` and `slots_unavailable`
are its effects.

Reference: Flink, "Network Buffer Tuning" and `taskmanager.memory.network.*`.
"""

import re
from typing import TypeAlias

from detectors.detector import View, on
from detectors.flink.facts import Failure
from detectors.patterns.keep_state import keep_state
from detectors.patterns.per_process import ProcessRef, named, writer
from detectors.patterns.repeated_signs import NOWHERE, RepeatedSigns, Signs, SignsConfig, SignsState, job_of

_TOO_FEW = re.compile(r"Insufficient number of network buffers: required ([0-9]+), but only ([0-9]+) available")
_TOTAL = re.compile(r"total number of network buffers is currently set to ([0-9]+)")
_TIMED_OUT = "Timeout triggered when requesting exclusive buffers"
_NO_POOL = "Could not allocate enough memory segments for NetworkBufferPool"

_View: TypeAlias = "View[NetworkBuffersExhausted.Config, NetworkBuffersExhausted.State]"


class NetworkBuffersExhausted(RepeatedSigns):
    """Detects jobs that get too few network buffers."""

    kind = "network_buffers_exhausted"

    class Config(SignsConfig):
        """Settings of the detector `network_buffers_exhausted`."""

    class State(SignsState):
        """Jobs with too few network buffers."""

    advice = keep_state() + (
        "More network memory or fewer channels help, restarts do not. Raise taskmanager.memory.network.fraction and "
        ".max (in containers also process.size) and restart the TaskManagers, or start the job again from its last "
        "completed checkpoint with a lower parallelism. In a session cluster, see which other job took the buffers. To "
        "prevent it: fewer slots for each TaskManager, and more network memory before the parallelism rises."
    )

    @on(Failure)
    def failed(self, view: _View, fact: Failure) -> None:
        missing, job = _missing(fact), job_of(view)
        # The JobManager repeats the line of a failing task, and shows the job.
        if missing and not fact.again and (job or not fact.of):
            at = writer(view, fact.tm, fact.host, fact.attempt)
            self.sign(view, job, missing, "critical", at if at.tm or not job else NOWHERE)

    def summary(self, _: _View, signs: Signs, job: str, often: str) -> str:
        at = f" on {named(ProcessRef(signs.tm, signs.host))}" if signs.tm or signs.host else ""
        return f"{job} cannot run for lack of network buffers{at}{often}: {signs.text}"


def _missing(fact: Failure) -> str:
    """What is missing, in words; empty if the failure is another one."""
    message = fact.message
    if (found := _TOO_FEW.search(message)) is not None:
        total = _TOTAL.search(message)
        return f"a task requires {found[1]}, and {found[2]}{f' of {total[1]}' if total else ''} are available"
    if _NO_POOL in message:
        return f"the TaskManager cannot allocate its network memory{message.partition(_NO_POOL)[2].partition('.')[0]}"
    return "a task did not get its exclusive buffers in time" if _TIMED_OUT in message else ""
