"""States of a job, as Flink logs them, that detectors treat alike."""

ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})
ENDING = ENDED | {"CANCELLING"}
RESTARTING = frozenset({"RESTARTING", "FAILING", "SUSPENDED"})
ACTIVE = frozenset({"RUNNING", "RESTARTING", "FAILING"})
"""The job runs, or will run again without an operator."""
