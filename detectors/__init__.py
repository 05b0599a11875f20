"""Detectors: what they are, and the registry of all of them. Adding one is one line here."""

from detectors.backpressure import Backpressure
from detectors.checkpoint_duration_creep import CheckpointDurationCreep
from detectors.checkpoint_failing import CheckpointFailing
from detectors.checkpoint_overdue import CheckpointOverdue
from detectors.clock_skew import ClockSkew
from detectors.detector import Detector
from detectors.direct_memory_exhaustion import DirectMemoryExhaustion
from detectors.ha_connection_lost import HaConnectionLost
from detectors.heap_exhaustion import HeapExhaustion
from detectors.input_gap import InputGap
from detectors.job_failed import JobFailed
from detectors.jobmanager_lost import JobmanagerLost
from detectors.late_barrier_acks import LateBarrierAcks
from detectors.memory_limit_kill import MemoryLimitKill
from detectors.metaspace_exhaustion import MetaspaceExhaustion
from detectors.node_lost import NodeLost
from detectors.restart_loop import RestartLoop
from detectors.restore_failed import RestoreFailed
from detectors.silence import Silence
from detectors.slots_unavailable import SlotsUnavailable
from detectors.taskmanager_lost import TaskManagerLost
from detectors.zero_input_leak import ZeroInputLeak

DETECTORS: tuple[type[Detector], ...] = (
    Backpressure,
    CheckpointDurationCreep,
    CheckpointFailing,
    CheckpointOverdue,
    ClockSkew,
    DirectMemoryExhaustion,
    HaConnectionLost,
    HeapExhaustion,
    InputGap,
    JobFailed,
    JobmanagerLost,
    LateBarrierAcks,
    MemoryLimitKill,
    MetaspaceExhaustion,
    NodeLost,
    RestartLoop,
    RestoreFailed,
    Silence,
    SlotsUnavailable,
    TaskManagerLost,
    ZeroInputLeak,
)
