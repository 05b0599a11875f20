"""The registry of all detectors. The pure core of flinkwatch: records in, incidents out, without Spark, Kafka or a
clock.

`kinds` has one module per kind of incident, `engine` folds events into them, `incidents` makes incidents of findings.
"""

from detectors.detector import Detector
from detectors.kinds.backpressure import Backpressure
from detectors.kinds.checkpoint_duration_creep import CheckpointDurationCreep
from detectors.kinds.checkpoint_failing import CheckpointFailing
from detectors.kinds.checkpoint_overdue import CheckpointOverdue
from detectors.kinds.clock_skew import ClockSkew
from detectors.kinds.direct_memory_exhaustion import DirectMemoryExhaustion
from detectors.kinds.ha_connection_lost import HaConnectionLost
from detectors.kinds.heap_exhaustion import HeapExhaustion
from detectors.kinds.job_failed import JobFailed
from detectors.kinds.jobmanager_lost import JobmanagerLost
from detectors.kinds.late_barrier_acks import LateBarrierAcks
from detectors.kinds.memory_limit_kill import MemoryLimitKill
from detectors.kinds.metaspace_exhaustion import MetaspaceExhaustion
from detectors.kinds.node_lost import NodeLost
from detectors.kinds.restart_loop import RestartLoop
from detectors.kinds.restore_failed import RestoreFailed
from detectors.kinds.slots_unavailable import SlotsUnavailable
from detectors.kinds.taskmanager_lost import TaskManagerLost
from detectors.kinds.telemetry_lost import TelemetryLost
from detectors.kinds.unread_records_lost import UnreadRecordsLost
from detectors.kinds.zero_input_leak import ZeroInputLeak

DETECTORS: tuple[type[Detector], ...] = (
    Backpressure,
    CheckpointDurationCreep,
    CheckpointFailing,
    CheckpointOverdue,
    ClockSkew,
    DirectMemoryExhaustion,
    HaConnectionLost,
    HeapExhaustion,
    UnreadRecordsLost,
    JobFailed,
    JobmanagerLost,
    LateBarrierAcks,
    MemoryLimitKill,
    MetaspaceExhaustion,
    NodeLost,
    RestartLoop,
    RestoreFailed,
    TelemetryLost,
    SlotsUnavailable,
    TaskManagerLost,
    ZeroInputLeak,
)
