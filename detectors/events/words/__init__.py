"""Flink's log vocabulary as data: one module per subject, one `Wording` per way a meaning has been written."""

from detectors.events.words import checkpoints, jobs, processes, taskmanagers
from detectors.events.words.wording import Wording

WORDINGS: tuple[Wording, ...] = (
    *checkpoints.WORDINGS,
    *jobs.WORDINGS,
    *taskmanagers.WORDINGS,
    *processes.WORDINGS,
)
"""In the order in which they are tried."""
