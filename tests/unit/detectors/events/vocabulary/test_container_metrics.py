"""Samples of containers: which are Flink's, whose they are, and that one page is read for all its clusters."""

import json

import pytest

from detectors.events.event import MetricEvent, Record
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.events.vocabulary.container_metrics import container_label, container_labels, mentions_containers

MEMORY = "container_memory"
POD, MAIN = "orders-taskmanager-1-1", "flink-main-container"
TAGS = {"pod": POD, "container": MAIN}
COUNTER = "container_cpu_cfs_throttled_periods_total"
_ATTRIBUTES = [{"key": k, "value": {"stringValue": v}} for k, v in TAGS.items()]
SUM = {
    "aggregationTemporality": 2,
    "dataPoints": [{"asDouble": 7, "timeUnixNano": "1700000000000000000", "attributes": _ATTRIBUTES}],
}


def exported(name: str, container: str, pod: str, value: float, namespace: str = "eu") -> str:
    """A line in the form of a page of cAdvisor."""
    rest = 'id="/kubepods.slice/kubepods-pod4f.slice",image="docker.io/library/flink:1.20",name="4f0c"'
    labels = f'container="{container}",{rest},namespace="{namespace}",pod="{pod}"'
    return f"{name}{{{labels}}} {value:.6e} 1700000000000"


_USED = "container_memory_working_set_bytes"
PAGE = "\n".join(
    (
        f"# HELP {_USED} [ALPHA] Current working set of the container in bytes",
        f"# TYPE {_USED} gauge",
        exported(_USED, "", POD, 2e9),
        exported(_USED, MAIN, POD, 1.9e9),
        exported(_USED, "fluent-bit", POD, 1e7),
        exported(_USED, MAIN, "carts-6c9d8b7f5d-x2lqp", 9e8, "us"),
        exported(_USED, "nginx", "taskmanager-front-7d9c5b6f4-abcde", 5e7, "web"),
        exported("container_fs_reads_total", MAIN, POD, 12),
    )
)


def read(value: str | bytes, key: str = "node-7", rules: tuple[str, ...] = (), **headers: str) -> list[MetricEvent]:
    identity = Identity.model_validate({"cluster": rules} if rules else {})
    data = value.encode() if isinstance(value, str) else value
    pairs = tuple((k, v.encode()) for k, v in headers.items())
    found = Reader(identity, frozenset({"m"})).read(Record("m", 0, 0, 1_700_000_000_500, key.encode(), data, pairs))
    assert isinstance(found, list), found
    return [event for event in found if isinstance(event, MetricEvent)]


def test_a_page_of_a_kubelet_is_read_for_each_cluster_in_it_and_for_no_other_pod() -> None:
    found = {event.cluster: [(s.labels["pod"], s.value) for s in event.samples] for event in read(PAGE)}
    assert found == {"orders": [("orders-taskmanager-1-1", 1.9e9)], "carts": [("carts-6c9d8b7f5d-x2lqp", 9e8)]}


def test_the_configured_rules_name_the_cluster_as_for_logs() -> None:
    assert {e.cluster for e in read(PAGE, rules=("namespace/app", "key"))} == {"eu/orders", "us/carts"}
    assert {e.cluster for e in read(PAGE, cluster="payments")} == {"payments"}


@pytest.mark.parametrize("label", ["label_app", "container_label_app", "app", "cluster_id"])
def test_the_label_of_the_pod_names_the_cluster_whatever_the_agent_calls_it(label: str) -> None:
    tags = {"pod": "tm-0", "container": "taskmanager", label: "orders"}
    assert (container_labels(MEMORY, tags) or {})["app"] == "orders"


@pytest.mark.parametrize(
    ("container", "pod", "known"),
    [
        ("flink-main-container", "orders-taskmanager-1-1", True),
        ("taskmanager", "flink-taskmanager-6b8f9c-abcde", True),
        ("my-jobmanager", "x-0", True),
        ("fluent-bit", "orders-taskmanager-1-1", False),
        ("", "orders-taskmanager-1-1", False),
        ("POD", "orders-taskmanager-1-1", False),
        ("flink-main-container", "", False),
    ],
)
def test_only_containers_of_flink_are_read(container: str, pod: str, known: bool) -> None:
    assert (container_labels(MEMORY, {"pod": pod, "container": container}) is not None) is known


def test_only_limits_of_memory_are_read_from_kube_state_metrics() -> None:
    series = 'kube_pod_container_resource_limits{{container="taskmanager",pod="tm-0",app="c",resource="{}",unit="x"}} 2'
    assert read(series.format("cpu")) == []
    (event,) = read(series.format("memory"))
    assert [(s.name, s.value) for s in event.samples] == [("container_memory_limit", 2.0)]


@pytest.mark.parametrize(
    "value",
    [
        json.dumps({"name": COUNTER, "fields": {"counter": 7}, "tags": TAGS, "timestamp": 1_700_000_000}),
        json.dumps({"name": "prometheus", "fields": {COUNTER: 7, "x": 1}, "tags": TAGS, "timestamp": 1_700_000_000}),
        f"prometheus,pod={POD},container={MAIN} {COUNTER}=7 1700000000000000000",
        json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": COUNTER, "sum": SUM}]}]}]}),
    ],
    ids=["telegraf 1", "telegraf 2", "influx", "otlp"],
)
def test_every_agent_that_reads_a_kubelet_gives_the_same_sample(value: str) -> None:
    (event,) = read(value)
    (sample,) = event.samples
    assert (event.cluster, event.time) == ("orders", 1_700_000_000_000)
    assert (sample.name, sample.value) == ("container_cpu_throttled_periods", 7.0)
    assert sample.labels["pod"] == "orders-taskmanager-1-1"


def test_the_role_of_a_container_is_that_of_its_name_or_of_its_pod() -> None:
    main = {"container": "flink-main-container"}
    assert container_label({**main, "pod": "orders-taskmanager-1-1"}) == "orders-taskmanager-1-1"
    assert container_label({**main, "pod": "orders-6c9d8b7f5d-x2lqp"}) == "jm|orders-6c9d8b7f5d-x2lqp"
    assert container_label({"container": "taskmanager", "pod": "a-0"}) == "a-0"
    assert container_label({"container": "jobmanager", "pod": "my-taskmanager-0"}) == "jm|my-taskmanager-0"
    assert container_label(main) == ""


def test_metrics_of_other_containers_are_no_unknown_metrics_of_flink() -> None:
    assert mentions_containers(b'container_fs_reads_total{pod="orders-taskmanager-1-1"} 1')
    assert mentions_containers(b'{"name":"kube_pod_info","tags":{"pod":"orders-taskmanager-1-1"}}')
    assert not mentions_containers(b"flink_taskmanager_x 1")
