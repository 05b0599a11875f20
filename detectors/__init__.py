"""Detectors: what they are, and the registry of all of them. Adding one is one line here."""

from detectors.checkpoint_overdue import CheckpointOverdue
from detectors.detector import Detector
from detectors.late_barrier_acks import LateBarrierAcks
from detectors.taskmanager_lost import TaskManagerLost

DETECTORS: tuple[type[Detector], ...] = (
    CheckpointOverdue,
    LateBarrierAcks,
    TaskManagerLost,
)
