"""Which throttled containers are worth a sentence, and about which process it is."""

from collections.abc import Iterable

import pytest

from detectors.events.event import Sample
from detectors.flink.throttling.containers import throttled, tm_of_pod, withheld
from detectors.flink.topology import TaskManager, Topology

JOB, OTHER = "a" * 32, "b" * 32
POD = "orders-taskmanager-1-1"
NATIVE = {"container": "flink-main-container"}


def measured(
    shares: Iterable[float], every: int = 15_000, pod: str = POD, known: Topology | None = None, apart: bool = False
) -> Topology:
    """The share of throttled periods in each interval between two scrapes, the first of which shows only totals."""
    topology = known or Topology()
    periods, held = 1_000.0, 100.0
    for number, share in enumerate([0.0, *shares]):
        ran = every / 100
        periods, held = periods + ran, held + share * ran
        labels = {**NATIVE, "pod": pod}
        pair = [
            Sample("container_cpu_periods", labels, round(periods)),
            Sample("container_cpu_throttled_periods", labels, round(held)),
        ]
        for part in [[pair[0]], [pair[1]]] if apart else [pair]:
            by_name: dict[str, list[Sample]] = {}
            for sample in part:
                by_name.setdefault(sample.name, []).append(sample)
            topology.measure(by_name, number * every)
    return topology


def test_a_container_that_is_hardly_throttled_or_for_moments_is_not_named() -> None:
    assert throttled(measured([0.1] * 40), 600_000) == ""
    assert throttled(measured([0, 0.9, 0.9, 0, 0, 0, 0.9, 0.9, 0, 0, 0]), 165_000) == ""


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("every", "samples"), [(5_000, 13), (15_000, 5), (30_000, 3), (60_000, 3)])
def test_three_samples_over_a_minute_are_worth_a_sentence(every: int, samples: int, apart: bool) -> None:
    before = measured([0.6] * (samples - 1), every, apart=apart)
    assert throttled(before, every * (samples - 1)) == ""
    text = throttled(measured([0.6] * samples, every, apart=apart), every * samples)
    assert f"TaskManager {POD} has used up its CPU limit: throttled in 60% of its periods" in text


def test_a_single_good_sample_ends_nothing_and_three_do() -> None:
    assert throttled(measured([0.6] * 8 + [0.0] * 2), 150_000)
    assert throttled(measured([0.6] * 8 + [0.0] * 3), 165_000) == ""


def test_a_container_that_is_no_longer_measured_is_not_named() -> None:
    assert throttled(measured([0.6] * 8), 120_000 + 180_001) == ""


def test_the_kubelets_older_numbers_again_prove_nothing() -> None:
    """A kubelet measures every ten seconds or so, however often it is asked."""
    topology = Topology()
    for second in range(0, 120, 2):
        measure = 10 * (second // 10)
        labels = {**NATIVE, "pod": POD}
        for name, value in (("container_cpu_periods", 10 * measure), ("container_cpu_throttled_periods", 6 * measure)):
            topology.measure({name: [Sample(name, labels, value)]}, second * 1_000)
    assert "throttled in 60%" in throttled(topology, 118_000)


def test_counters_that_begin_again_are_those_of_a_new_process() -> None:
    topology = measured([0.6] * 2, 60_000)
    labels = {**NATIVE, "pod": POD}
    for name in ("container_cpu_periods", "container_cpu_throttled_periods"):
        topology.measure({name: [Sample(name, labels, 0.0)]}, 180_000)
    assert throttled(topology, 180_000) == ""


def test_a_taskmanager_is_known_by_its_pod_its_log_or_its_host() -> None:
    topology = Topology(tms={POD: TaskManager("10.0.0.7"), "tm-0:6122-ab": TaskManager("tm-0")})
    topology.tm_of_source["flink-taskmanager-6b8f-x2l:taskmanager"] = "10.0.0.8:6122-cd"
    topology.tms["10.0.0.8:6122-cd"] = TaskManager("10.0.0.8")
    assert tm_of_pod(topology, POD) == POD
    assert tm_of_pod(topology, "flink-taskmanager-6b8f-x2l") == "10.0.0.8:6122-cd"
    assert tm_of_pod(topology, "tm-0") == "tm-0:6122-ab"
    assert tm_of_pod(topology, "unknown-pod") == "unknown-pod"


def test_the_taskmanager_of_a_finding_or_of_a_job_is_named_and_no_other() -> None:
    topology = measured([0.6] * 8)
    assert POD in throttled(topology, 120_000, tm=POD)
    assert throttled(topology, 120_000, tm="orders-taskmanager-1-2") == ""
    for number in range(2):
        read = [Sample("records_in", {"job_id": OTHER, "tm_id": POD.replace("-", "_")}, 100.0 * number)]
        topology.measure({"records_in": read}, 100_000 + number * 10_000)
    assert POD in withheld(topology, 120_000, OTHER)
    assert withheld(topology, 120_000, JOB) == ""


def test_a_throttled_jobmanager_is_named_if_no_taskmanager_is() -> None:
    master = measured([0.6] * 8, pod="orders-6c9d8b7f5d-x2lqp")
    assert "; JobManager orders-6c9d8b7f5d-x2lqp has used up" in throttled(master, 120_000, job=JOB)
    both = measured([0.4] * 8, known=master)
    assert f"; TaskManager {POD} has used up" in throttled(both, 120_000, job=JOB)


def test_late_samples_and_the_same_again_change_nothing() -> None:
    topology = measured([0.6] * 8)
    before = throttled(topology, 120_000)
    assert throttled(measured([0.0] * 7, known=topology), 120_000) == before
