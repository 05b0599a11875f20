"""Metrics of containers, as the kubelet (cAdvisor) and kube-state-metrics export them. Only those of Flink are read.

One page covers the pods of many clusters and many that have nothing to do with Flink. So each sample says itself where
it belongs: by the label `app` of its pod, which an agent may add under several names, or by the names that Flink gives
its pods on Kubernetes.
"""

import re
from collections.abc import Iterable

from detectors.events.event import Sample
from detectors.events.names import OF_JOBMANAGER

MEMORY, MEMORY_LIMIT = "container_memory", "container_memory_limit"
CPU_PERIODS, THROTTLED_PERIODS = "container_cpu_periods", "container_cpu_throttled_periods"

CONTAINER_NAMES: dict[str, str] = {
    "container_memory_working_set_bytes": MEMORY,
    "container_spec_memory_limit_bytes": MEMORY_LIMIT,
    "kube_pod_container_resource_limits": MEMORY_LIMIT,
    "container_cpu_cfs_periods": CPU_PERIODS,
    "container_cpu_cfs_throttled_periods": THROTTLED_PERIODS,
}
"""The names that detectors use, by Prometheus name without `_total`."""

OF_CONTAINERS = frozenset(CONTAINER_NAMES.values())

CONTAINER_LABELS = ("namespace", "pod", "container", "app")
"""The labels of their samples. `app` is Flink's cluster-id."""

_APP = ("label_app", "container_label_app", "k8s_pod_labels_app", "k8s.pod.labels.app", "app", "cluster_id")
_EXPORTED = re.compile(rb"\b(?:container_(?:cpu|memory|spec|fs|network|tasks|threads|[a-z]+_seconds)|kube_)")
_EXPORTERS = ("container_", "kube_")
_MAIN = "flink-main-container"
_ROLE = re.compile(r"(?:job|task)manager")
# Native Kubernetes numbers the pods of TaskManagers. Those of JobManagers belong to a Deployment, which has the name of
# the cluster and adds parts in an alphabet that makes no words.
_OF_TASKMANAGER = re.compile(r"(.+)-taskmanager-\d+-\d+$")
_OF_DEPLOYMENT = re.compile(r"(.+)-[bcdf-hj-np-tv-xz2456789]{6,10}-[bcdf-hj-np-tv-xz2456789]{5}$")


def container_labels(name: str, tags: dict[str, str]) -> dict[str, str] | None:
    """The labels of a container's sample, None if it is of no container of Flink or is no limit of memory."""
    container, pod = tags.get("container", ""), tags.get("pod", "")
    if not pod or not (container == _MAIN or _ROLE.search(container)):
        return None
    if name == MEMORY_LIMIT and tags.get("resource", "memory") != "memory":
        return None
    app = next((tags[key] for key in _APP if tags.get(key)), "") or (_cluster_id(pod) if container == _MAIN else "")
    labels = {"namespace": tags.get("namespace", ""), "pod": pod, "container": container, "app": app}
    return {key: value for key, value in labels.items() if value}


def is_unread(line: str) -> bool:
    """Whether a line of a Prometheus page is about containers and has a name that no detector uses.

    A kubelet prints thousands of them, so they are passed over before a pattern looks at them.
    """
    return line.startswith(_EXPORTERS) and line.partition("{")[0].removesuffix("_total") not in CONTAINER_NAMES


def container_label(labels: dict[str, str]) -> str:
    """The pod of a container, with `OF_JOBMANAGER` before it if the container runs no TaskManager; empty if unknown."""
    pod, container = labels.get("pod", ""), labels.get("container", "")
    tm = "taskmanager" in (pod if container == _MAIN else container)
    return pod if tm or not pod else OF_JOBMANAGER + pod


def only_containers(samples: Iterable[Sample]) -> bool:
    """Whether no sample is one of Flink itself."""
    return all(sample.name in OF_CONTAINERS for sample in samples)


def by_app(samples: list[Sample]) -> Iterable[tuple[tuple[str, str], list[Sample]]]:
    """The samples by (namespace, app) of their pod. Samples of Flink itself have neither."""
    parts: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        labels = sample.labels
        parts.setdefault((labels.get("namespace", ""), labels.get("app", "")), []).append(sample)
    return parts.items()


def mentions_containers(value: bytes) -> bool:
    """Whether a metric record seems to be about containers: names of Flink's pods in it do not make it one of Flink."""
    return _EXPORTED.search(value) is not None


def _cluster_id(pod: str) -> str:
    """The cluster-id in the name of a pod of native Kubernetes.

    >>> _cluster_id("orders-taskmanager-1-3"), _cluster_id("orders-eu-6c9d8b7f5d-x2lqp"), _cluster_id("orders-0")
    ('orders', 'orders-eu', '')
    """
    found = _OF_TASKMANAGER.match(pod) or _OF_DEPLOYMENT.match(pod)
    return found[1] if found else ""
