"""Which trouble of a deployment an event of Kubernetes or of Flink's operator shows, and which events show its end.

The reasons are those of the scheduler, the kubelet, the ReplicaSet controller and the operator's `EventRecorder`. The
operator's differ from version to version, so each of its warnings counts, unless another kind reports what it says.
"""

from typing import Literal

from detectors.flink.facts import KubernetesEvent

Trouble = Literal["scheduling", "image", "quota", "start", "crash", "reconcile", "rollback", "autoscaler", "scaling"]

WORDS: dict[Trouble, str] = {
    "scheduling": "pods cannot be scheduled",
    "image": "an image cannot be pulled",
    "quota": "pods cannot be created",
    "start": "containers cannot start",
    "crash": "containers crash again and again",
    "reconcile": "the operator cannot bring the deployment to its desired state",
    "rollback": "the operator rolled a failed deployment back",
    "autoscaler": "the autoscaler fails",
    "scaling": "the autoscaler cannot help",
}

OF_PODS = frozenset({"scheduling", "image", "quota", "start", "crash"})
"""Troubles in which a process is missing."""

_OF_REASON: dict[str, Trouble] = {
    "FailedScheduling": "scheduling",
    "FailedCreate": "quota",
    "ErrImagePull": "image",
    "ImagePullBackOff": "image",
    "InspectFailed": "image",
    "ErrImageNeverPull": "image",
    "FailedMount": "start",
    "FailedAttachVolume": "start",
    "FailedCreatePodSandBox": "start",
    "CreateContainerConfigError": "start",
    "RunContainerError": "start",
    "CrashLoopBackOff": "crash",
    "OOMKilled": "crash",
    "AutoscalerError": "autoscaler",
    # The autoscaler does not mark all of these as warnings.
    "Rollback": "rollback",
    "IneffectiveScaling": "scaling",
    "ResourceQuotaReached": "scaling",
    "MemoryPressure": "scaling",
}
# A failed job, its exceptions and its failed savepoints have kinds of their own, from Flink's lines.
_ELSEWHERE = frozenset(
    {"JobException", "JobStatusChanged", "SavepointError", "CheckpointError", "SnapshotError", "SnapshotAbandoned"}
)
_IMAGE = ("pull", "Image")
_ENDED_BY: dict[str, frozenset[Trouble]] = {
    "Scheduled": frozenset({"scheduling"}),
    "Pulled": frozenset({"image"}),
    "SuccessfulCreate": frozenset({"quota"}),
    "Started": frozenset({"scheduling", "image", "start"}),
}
_WORKS: frozenset[Trouble] = frozenset({"scheduling", "image", "quota", "start", "crash", "reconcile", "rollback"})


def trouble_of(event: KubernetesEvent) -> Trouble | None:
    """The trouble that the event shows, if any."""
    happened = event.happened
    if (known := _OF_REASON.get(happened)) is not None:
        return known
    if event.severity != "Warning":
        return None
    if event.object.startswith("Flink"):
        return None if happened in _ELSEWHERE else "reconcile"
    of_image = any(word in event.note for word in _IMAGE)
    if happened == "BackOff":
        return "image" if of_image else "crash"
    if happened == "Failed":
        return "image" if of_image else "start"
    return None


def ended_by(event: KubernetesEvent) -> frozenset[Trouble]:
    """The troubles of the event's object that are over. A job that runs shows it of its whole deployment."""
    if event.happened == "JobStatusChanged":
        return _WORKS if event.note.rstrip(".").endswith("RUNNING") else frozenset()
    return _ENDED_BY.get(event.happened, frozenset())


def interval(trouble: Trouble) -> int:
    """How often a trouble that lasts is repeated at the latest, in ms.

    The scheduler tries a pod again after 5 min at the latest (`podMaxInUnschedulablePodsDuration`, looked at every
    30 s), the kubelet's back-off ends at 5 min, and the autoscaler repeats itself every 30 min
    (`job.autoscaler.scaling.event.interval`).
    """
    return 1_800_000 if trouble == "scaling" else 330_000
