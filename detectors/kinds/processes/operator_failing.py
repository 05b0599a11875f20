"""Kubernetes or Flink's operator cannot bring a deployment to its desired state.

Opens on events of Kubernetes about a deployment's pods (`FailedScheduling`, `FailedCreate` such as an exceeded quota,
an image that cannot be pulled, containers that cannot start or crash) and on warnings of the operator (validation,
reconciliation, `Missing`, `CleanupFailed`, `AutoscalerError`) once there are `min_signs` of one trouble over
`min_duration`; on `IneffectiveScaling`, `ResourceQuotaReached` and `MemoryPressure` of the autoscaler, which come every
30 min, at the second; and at once on `Rollback`. One finding for each trouble. Critical if processes are missing and no
job of the deployment is RUNNING, else a warning.

Not reported: an ordinary upgrade; a pod that waits a few minutes for a node; an event that was shipped too late to show
what is the case now; failed jobs and savepoints, which have kinds of their own. Resolved `recovered_after` an event
shows that all objects work, or after three intervals without a sign.

Why it matters: Flink only logs that slots are missing, and nothing at all if its JobManager does not start.
`slots_unavailable` and `job_missing` report the effect. Reference: Flink Kubernetes Operator,
`EventRecorder`; Kubernetes, "Events", "Scheduling Framework".
"""

from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.flink import facts
from detectors.flink.processes.kubernetes_troubles import OF_PODS, WORDS, Trouble, ended_by, interval, trouble_of
from detectors.incident import Evidence, Finding
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_OBJECTS, _MAX_RECORDS, _MAX_NOTE = 100, 4, 200
_QUIET_INTERVALS, _SCALING_SIGNS = 3, 2
# Signs this many intervals apart are still one trouble.
_LATE = 1.3

_PODS_ADVICE = (
    "Read the events of the pod (kubectl describe pod). Not schedulable: free or add nodes, or lower the requests. "
    "Quota: raise it. Image: check name, tag and pull secret. The job waits, and its state is in the last completed "
    "checkpoint; do not delete the deployment, by default that deletes its checkpoints. To prevent it: room for one "
    "more node's pods, images that are pulled beforehand, an alert on quotas."
)
_OPERATOR_ADVICE = (
    "Read status.error of the FlinkDeployment and the operator's log. Correct the specification or what it refers to "
    "(volumes, secrets, permissions, a savepoint). One that was rolled back is not in force: the job runs as before. "
    "Do not delete the resource, by default that deletes its checkpoints. To prevent it: the operator's webhook."
)
_SCALING_ADVICE = (
    "Look at what limits the job, because more parallelism does not help: skewed keys, an external system, too few "
    "partitions; or raise the autoscaler's quota (job.autoscaler.quota.cpu, .memory) or the memory. To prevent it: "
    "a quota that fits the daily peak, and as many partitions as the highest parallelism."
)

_View: TypeAlias = "View[OperatorFailing.Config, OperatorFailing.State]"


class AffectedObject(msgspec.Struct, array_like=True):
    """An object in trouble: event time and clock of its last sign, and how often Kubernetes has counted it."""

    last: int
    clock: int
    times: int = 0


class OngoingTrouble(msgspec.Struct, array_like=True):
    """The signs of one trouble. `works`: clock of the last event that showed the contrary about one object."""

    since: int
    last: int
    clock: int
    target: str
    note: str
    signs: int = 0
    objects: dict[str, AffectedObject] = {}
    records: list[Evidence] = []
    works: int = LONG_AGO
    reported: bool = False


class OperatorFailing(Detector):
    """Detects deployments that Kubernetes or Flink's operator cannot bring up."""

    kind = "operator_failing"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `operator_failing`."""

        min_signs: int = threshold(
            3, "Number of events about one trouble, as counted by Kubernetes, from which it is reported.", ge=2
        )
        min_duration: Duration = threshold(
            300_000,
            "Minimum time between the first and the last of these events. A new node is ready faster, and a rolling "
            "upgrade frees the quota of old pods faster.",
        )
        recovered_after: Duration = threshold(
            180_000, "Time without another sign after an event that shows recovery, from which the finding is resolved."
        )

    class State(msgspec.Struct, array_like=True):
        """Troubles, and event times of the last signs of those that are over."""

        troubles: dict[Trouble, OngoingTrouble] = {}
        ended: dict[Trouble, int] = {}

    config: Config

    @on(facts.KubernetesEvent)
    def happened(self, view: _View, event: facts.KubernetesEvent) -> None:
        of_deployment = event.object.startswith("Flink")
        if event.happened == "Cleanup" and of_deployment:
            for trouble in list(view.state.troubles):
                self._end(view, trouble, "the deployment is being deleted")
        elif (shown := trouble_of(event)) is not None:
            self._sign(view, shown, event)
        else:
            for over in ended_by(event):
                self._works(view, over, "" if of_deployment else event.target)

    @on(facts.TaskManagerRegistered, needs="troubles")
    def registered(self, view: _View, fact: facts.TaskManagerRegistered) -> None:
        """The TaskManager of a native deployment has the name of its pod."""
        for trouble, known in list(view.state.troubles.items()):
            for target in [target for target in known.objects if target.rpartition("/")[2] == fact.tm]:
                self._works(view, trouble, target)

    def on_deadline(self, view: _View) -> None:
        """Close findings whose objects work again, or about which nothing has come for long."""
        for trouble, known in list(view.state.troubles.items()):
            if known.reported and view.clock >= _due(trouble, known, self.config):
                calm = humanize(view.clock - max(known.works, known.clock))
                self._end(view, trouble, f"no such event for {calm}{'' if known.objects else ', and it works again'}")

    def next_deadline(self, view: _View) -> int | None:
        """When the first finding ends if no other sign comes."""
        reported = [(trouble, known) for trouble, known in view.state.troubles.items() if known.reported]
        return min((_due(trouble, known, self.config) for trouble, known in reported), default=None)

    def _sign(self, view: _View, trouble: Trouble, event: facts.KubernetesEvent) -> None:
        state, time, pause = view.state, view.time, int(_LATE * interval(trouble))
        if view.clock - time > pause or time <= state.ended.get(trouble, LONG_AGO):
            return
        known = state.troubles.get(trouble)
        if known is None or (not known.reported and time - known.last > pause):
            known = state.troubles[trouble] = OngoingTrouble(time, time, view.clock, event.target, event.note)
        one = known.objects.get(event.target) or AffectedObject(LONG_AGO, 0)
        if time <= one.last:
            return
        # Those of a pod are counted from its own start; those of a deployment may be of an earlier trouble.
        times, spread = (min(event.times, 1_000), min(event.spread, 86_400)) if event.object == "Pod" else (0, 0)
        known.signs += max(1, times - one.times)
        known.since, known.last = min(known.since, time - spread * 1_000), max(known.last, time)
        known.clock = view.clock
        put_bounded(known.objects, event.target, AffectedObject(time, view.clock, times), _MAX_OBJECTS)
        append_new(known.records, view.record(), _MAX_RECORDS)
        enough = known.signs >= (_SCALING_SIGNS if trouble == "scaling" else self.config.min_signs)
        lasts = known.last - known.since >= self.config.min_duration
        if not known.reported and (trouble == "rollback" or (enough and lasts)):
            known.reported, known.target, known.note = True, event.target, event.note
            view.report(self._finding(view, trouble, known))

    def _works(self, view: _View, trouble: Trouble, target: str) -> None:
        """An object works again, or (without a name) all of them. A trouble not yet reported of any is forgotten."""
        known = view.state.troubles.get(trouble)
        for name in list(known.objects) if known is not None else []:
            if known is not None and target in ("", name) and known.objects[name].last <= view.time:
                known.works = view.clock
                del known.objects[name]
        if known is not None and not known.objects and not known.reported:
            del view.state.troubles[trouble]

    def _end(self, view: _View, trouble: Trouble, why: str) -> None:
        known = view.state.troubles.pop(trouble)
        view.state.ended[trouble] = known.last
        if known.reported:
            view.close(self._finding(view, trouble, known), why)

    def _finding(self, view: _View, trouble: Trouble, known: OngoingTrouble) -> Finding:
        job, name = view.topology.only_job()
        runs = any(one.state == "RUNNING" for one in view.topology.jobs.values())
        of_operator = _SCALING_ADVICE if trouble == "scaling" else _OPERATOR_ADVICE
        return view.finding(
            trouble,
            {"job_id": job, "job_name": name, "object": known.target},
            since=known.since,
            severity="critical" if trouble in OF_PODS and not runs else "warning",
            summary=f"{WORDS[trouble]} ({known.target}): {known.note[:_MAX_NOTE].rstrip('. ')}",
            confidence="sure",
            evidence=known.records,
            advice=_PODS_ADVICE if trouble in OF_PODS else of_operator,
        )


def _due(trouble: Trouble, known: OngoingTrouble, config: OperatorFailing.Config) -> int:
    """The clock at which the trouble ends: an object of which nothing more comes may have been replaced."""
    every = interval(trouble)
    quiet = known.clock + _QUIET_INTERVALS * every
    if known.works == LONG_AGO:
        return quiet
    others = max((one.clock for one in known.objects.values()), default=LONG_AGO) + int(_LATE * every)
    return min(quiet, max(known.works + config.recovered_after, others))
