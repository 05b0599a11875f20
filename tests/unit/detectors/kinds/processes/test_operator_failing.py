"""What Kubernetes and Flink's operator may do without being reported, what is reported, and what ends it."""

from typing import Self

import pytest

from detectors.incident import Transition
from tests.unit.detectors.story import MINUTE, SECOND, Story, Time, ms
from tests.unit.detectors.streams import START

POD, OTHER_POD, DEPLOYMENT = "flink/orders-taskmanager-1-1", "flink/orders-taskmanager-1-2", "flink/orders"
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."
PULLING = 'Back-off pulling image "registry/orders:17"'
RUNNING = "Job status changed from CREATED to RUNNING"


class Deployments(Story):
    """A story with events of Kubernetes; each reaches Kafka a second after it happened."""

    def event(
        self,
        happened: str,
        at: Time,
        note: str = "x",
        *,
        about: str = POD,
        times: int = 1,
        spread: Time = 0,
        normal: bool = False,
        lag: Time = SECOND,
    ) -> Self:
        """An event about an object, as the reader makes it."""
        kind = "FlinkDeployment" if about == DEPLOYMENT else "ReplicaSet" if "-1-" not in about else "Pod"
        self.line(
            "kubernetes_event",
            at,
            source=":kubernetes-events",
            lag=lag,
            severity="Normal" if normal else "Warning",
            happened=happened,
            object=kind,
            target=about,
            times=str(times),
            spread=str(ms(spread) // 1000),
            note=note,
        )
        self.events[-1].zoned = True  # type: ignore[union-attr]
        return self

    def unschedulable(self, at: Time, about: str = POD, times: int = 3) -> Self:
        """A pod finds no node: the scheduler says so at once and every 5.5 min."""
        for number in range(times):
            after = number * 330 * SECOND
            self.event("FailedScheduling", ms(at) + after, NO_ROOM, about=about, times=number + 1, spread=after)
        return self

    def upgraded(self, at: Time) -> Self:
        """An ordinary upgrade."""
        time = ms(at)
        for number, (happened, note) in enumerate(
            (
                ("SpecChanged", "UPGRADE change(s) detected, starting reconciliation."),
                ("Suspended", "Suspending existing deployment."),
                ("Submit", "Starting deployment"),
                ("JobStatusChanged", "Job status changed from RECONCILING to CREATED"),
                ("JobStatusChanged", RUNNING),
            )
        ):
            self.event(happened, time + number * 10 * SECOND, note, about=DEPLOYMENT, normal=True)
        return self

    def changes(self, until: Time = "3 h") -> list[Transition]:
        """The transitions without updates, of a cluster that sends metrics all the time."""
        for minute in range(ms(until) // MINUTE):
            self.measure("jm_heap_used", 1e8, minute * MINUTE)
        return [t for t in self.transitions(until) if t.transition != "updated"]


def deployments(*more: str) -> Deployments:
    return Deployments("operator_failing", *more)


def test_an_ordinary_upgrade_is_healthy() -> None:
    history = deployments().upgraded("1 min").event("Scheduled", "2 min", normal=True)
    history.event("Started", "2 min 10 s", normal=True).upgraded("20 min").upgraded("40 min")
    assert history.changes() == []


def test_a_pod_that_waits_minutes_for_a_node_is_healthy() -> None:
    history = deployments().unschedulable("1 min", times=2).event("TriggeredScaleUp", "1 min 5 s", normal=True)
    history.event("Scheduled", "7 min", normal=True)
    assert history.changes() == []


def test_pods_that_wait_one_after_the_other_are_healthy() -> None:
    history = deployments()
    for number in range(8):
        start, pod = number * 4 * MINUTE, f"flink/orders-taskmanager-1-{number}"
        history.event("FailedScheduling", start, NO_ROOM, about=pod, times=2, spread="1 min")
        history.event("Scheduled", start + 2 * MINUTE, about=pod, normal=True)
    assert history.changes() == []


def test_a_registered_taskmanager_shows_that_its_pod_was_scheduled() -> None:
    def history() -> Deployments:
        return deployments().event("FailedScheduling", 0, NO_ROOM, times=1)

    again = {"about": POD, "times": 3, "spread": "6 min"}
    waits = history().event("FailedScheduling", "6 min", NO_ROOM, **again)  # type: ignore[arg-type]
    assert [t.transition for t in waits.changes("7 min")] == ["opened"]
    runs = history().line("tm_registered", "1 min", tm="orders-taskmanager-1-1")
    runs.event("FailedScheduling", "6 min", NO_ROOM, about=OTHER_POD)
    assert runs.changes() == []


def test_a_registry_that_hiccups_and_a_quota_that_old_pods_still_use_are_healthy() -> None:
    history = deployments().event("Failed", 0, "Error: ErrImagePull").event("BackOff", "10 s", PULLING, times=4)
    history.event("Pulled", "2 min", normal=True)
    for number in range(10):
        history.event("FailedCreate", number * 6 * SECOND, "exceeded quota: team", about="flink/orders-6d8f")
    history.event("SuccessfulCreate", "2 min", about="flink/orders-6d8f", normal=True)
    assert history.changes() == []


def test_old_events_that_a_restarted_collector_sends_again_show_nothing() -> None:
    history = deployments()
    for number in range(6):
        at = number * 5 * MINUTE
        history.event("FailedScheduling", at, NO_ROOM, times=number + 1, spread=at, lag=50 * MINUTE - at)
    assert history.changes() == []


def test_one_scaling_that_did_not_help_is_healthy_and_so_are_the_operators_normal_events() -> None:
    history = deployments().event("IneffectiveScaling", 0, about=DEPLOYMENT, normal=True)
    for number in range(20):
        history.event("ScalingReport", number * MINUTE, about=DEPLOYMENT, normal=True)
    assert history.changes() == []


def test_failed_jobs_and_savepoints_are_left_to_their_own_kinds() -> None:
    history = deployments()
    for number in range(20):
        for reason in ("SavepointError", "JobException", "CheckpointError"):
            history.event(reason, number * MINUTE, about=DEPLOYMENT)
    assert history.changes() == []


def test_a_pod_without_a_node_is_reported_with_what_the_scheduler_says_and_resolved_once_it_has_one() -> None:
    history = deployments().unschedulable("1 min").event("Scheduled", "20 min", normal=True)
    opened, resolved = history.changes()
    assert (opened.cause, opened.severity) == ("operator_failing", "critical")
    assert opened.summary == f"pods cannot be scheduled ({POD}): {NO_ROOM.rstrip('.')}"
    assert opened.findings[0].since == START + MINUTE
    assert opened.at - START == 12 * MINUTE + SECOND
    assert resolved.at - START == 24 * MINUTE + SECOND, "a minute after the finding"


def test_it_is_a_warning_while_a_job_of_the_deployment_runs() -> None:
    assert [t.severity for t in deployments().runs(0).unschedulable("1 min").changes("15 min")] == ["warning"]


def test_pods_that_flink_replaces_are_one_trouble() -> None:
    history = deployments()
    for number in range(4):
        history.event("FailedScheduling", number * 5 * MINUTE, NO_ROOM, about=f"flink/orders-taskmanager-1-{number}")
    opened, resolved = history.changes()
    assert opened.at - START == 10 * MINUTE + SECOND
    assert resolved.at - START == (15 + 17) * MINUTE + 31 * SECOND, "after three intervals without a sign"


def test_a_pod_that_is_scheduled_ends_nothing_while_another_one_waits() -> None:
    history = deployments().unschedulable(0, times=6).unschedulable("1 min", OTHER_POD)
    history.event("Scheduled", "13 min", about=OTHER_POD, normal=True).event("Scheduled", "28 min", normal=True)
    assert [(t.transition, (t.at - START) // MINUTE) for t in history.changes()] == [("opened", 5), ("resolved", 32)]


def test_an_event_first_seen_when_kubernetes_has_counted_it_often_is_reported_at_once() -> None:
    history = deployments().event("BackOff", "1 h", PULLING, times=40, spread="20 min")
    opened = history.changes("61 min")[0]
    assert opened.summary.startswith("an image cannot be pulled")
    assert opened.findings[0].since == START + 40 * MINUTE


@pytest.mark.parametrize(
    ("happened", "note", "about", "words"),
    [
        ("Failed", 'Failed to pull image "x": not found', POD, "an image cannot be pulled"),
        ("BackOff", "Back-off restarting failed container flink-main-container", POD, "containers crash"),
        ("Failed", 'Error: secret "s3" not found', POD, "containers cannot start"),
        ("FailedCreate", "pods is forbidden: exceeded quota: team", "flink/orders-6d8f", "pods cannot be created"),
        ("ClusterDeploymentException", "Could not create Kubernetes cluster", DEPLOYMENT, "the operator cannot"),
        ("ValidationError", "JobManager replicas should not be 0", DEPLOYMENT, "the operator cannot"),
        ("Missing", "Missing JobManager deployment", DEPLOYMENT, "the operator cannot"),
        ("AutoscalerError", "null", DEPLOYMENT, "the autoscaler fails"),
    ],
)
def test_what_lasts_is_reported_in_words(happened: str, note: str, about: str, words: str) -> None:
    history = deployments()
    for number in range(7):
        history.event(happened, number * MINUTE, note, about=about)
    opened = history.changes("10 min")[0]
    assert opened.summary.startswith(words)
    assert (opened.at - START) // MINUTE == 5


def test_a_rollback_is_reported_at_once_and_resolved_once_the_job_runs_as_before() -> None:
    history = deployments().event("Rollback", "1 min", "Rolling back failed deployment.", about=DEPLOYMENT, normal=True)
    history.event("JobStatusChanged", "2 min", RUNNING, about=DEPLOYMENT, normal=True)
    assert [(t.transition, t.at - START) for t in history.changes()] == [
        ("opened", MINUTE + SECOND),
        ("resolved", 6 * MINUTE + SECOND),
    ]


def test_an_autoscaler_that_says_again_that_it_cannot_help_is_reported() -> None:
    history = deployments()
    for number in range(2):
        history.event("ResourceQuotaReached", number * 30 * MINUTE, about=DEPLOYMENT, times=number + 1)
    assert [(t.severity, (t.at - START) // MINUTE) for t in history.changes("1 h")] == [("warning", 30)]


def test_a_deployment_that_is_deleted_ends_it() -> None:
    history = deployments().unschedulable(0).event("Cleanup", "12 min", about=DEPLOYMENT, normal=True)
    assert [t.transition for t in history.changes("14 min")] == ["opened", "resolved"]


def test_events_that_are_sent_again_count_once() -> None:
    history = deployments().unschedulable(0, times=1).event("FailedScheduling", "4 min", NO_ROOM, about=OTHER_POD)
    assert history.sent_again("5 s").sent_again("9 s").changes() == []


def test_it_explains_that_slots_are_missing() -> None:
    history = deployments("slots_unavailable").unschedulable("1 min", times=5)
    history.runs(0).by("jm").line("slots_wanted", "2 min").line("slots_refused", "6 min", job="a" * 32)
    last = history.transitions("20 min")[-1]
    assert last.cause == "operator_failing"
    assert {f.kind for f in last.findings} == {"operator_failing", "slots_unavailable"}
