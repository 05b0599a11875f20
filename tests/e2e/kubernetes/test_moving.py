"""The overlays and k8s/move.sh against the real API server, controllers and scheduler; no container runs."""

import copy
from collections.abc import Iterator

import pytest

from tests.e2e.kubernetes.control_plane import ControlPlane
from tests.e2e.kubernetes.installation import Installed, eventually, needs_control_plane
from tests.e2e.kubernetes.kubelet import Kubelet
from tests.unit.k8s.manifests import K8S, OVERLAYS, WITH_EXECUTORS, Manifest, driver, executor, overlay

pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_control_plane]

BOTH_CLAIMS = {"flinkwatch-state", "flinkwatch-cluster-state"}
OF_CLUSTER_ALONE = {
    "StatefulSet/flinkwatch",
    "Service/flinkwatch-driver",
    "Role/flinkwatch-driver",
    "RoleBinding/flinkwatch-driver",
    "NetworkPolicy/flinkwatch-spark",
}


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_api_server_takes_every_overlay_and_its_pods_without_a_warning(installed: Installed, name: str) -> None:
    for options in (["--dry-run=server"], []):
        done = installed.apply(name, *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) == len(overlay(name))
    difference = installed.plane.kubectl("diff", "--kustomize", str(K8S / "overlays" / name))
    assert (difference.returncode, difference.stdout, difference.stderr) == (0, "", "")
    # What Spark or an operator makes of a template is not looked at before it is a pod.
    eventually(lambda: installed.plane.kubectl("-n", "flinkwatch", "get", "serviceaccount/default").returncode == 0)
    for pod in pods(name):
        admitted = installed.plane.kubectl("create", "--filename", "-", "--dry-run=server", given=pod)
        assert (admitted.returncode, admitted.stderr) == (0, "")
        pod["spec"]["securityContext"]["runAsNonRoot"] = False
        refused = installed.plane.kubectl("create", "--filename", "-", "--dry-run=server", given=pod)
        assert "violates PodSecurity" in refused.stderr


def pods(name: str) -> Iterator[Manifest]:
    """The pods of an overlay, as something makes them of their templates."""
    objects = overlay(name)
    for template in [driver(objects)] + ([executor(objects)] if name in WITH_EXECUTORS else []):
        pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)}
        pod["metadata"] = pod["metadata"] | {"name": "tried", "namespace": "flinkwatch"}
        pod["spec"]["containers"][0]["image"] = "flinkwatch"
        yield pod


def test_a_move_to_cluster_and_back_keeps_both_claims_and_never_has_two_drivers(
    installed: Installed, node: Kubelet
) -> None:
    assert installed.apply("single").returncode == 0
    installed.rolled_out("deployment/flinkwatch")
    move(installed, "cluster")
    objects = installed.objects()
    assert "Deployment/flinkwatch" not in objects
    assert objects.keys() >= OF_CLUSTER_ALONE
    assert list(installed.drivers()) == ["flinkwatch-0"]

    move(installed, "single")
    objects = installed.objects()
    assert not OF_CLUSTER_ALONE & objects.keys()
    assert "Deployment/flinkwatch" in objects
    assert installed.get("configmap/flinkwatch")["data"].keys() == {"flinkwatch.yaml"}

    move(installed, "cluster")
    assert node.at_once == node.on_node == 1


def move(here: Installed, target: str) -> None:
    """There is one driver and both claims afterwards, and a second run changes neither them nor anything else."""
    done = here.move(target)
    assert (done.returncode, done.stderr) == (0, "")
    assert {c["metadata"]["name"] for c in here.get("persistentvolumeclaims")["items"]} == BOTH_CLAIMS
    (driver_of_now,) = here.drivers().values()
    objects = here.objects()
    assert here.move(target).returncode == 0
    assert here.objects() == objects
    assert [d["metadata"]["uid"] for d in here.drivers().values()] == [driver_of_now["metadata"]["uid"]]


REFUSES_STATEFULSETS = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-statefulsets"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["statefulsets"],
                    }
                ]
            },
            "validations": [{"expression": "false", "message": "no StatefulSets here"}],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-statefulsets"},
        "spec": {"policyName": "no-statefulsets", "validationActions": ["Deny"]},
    },
]
CLAIM_OF_ONE_NODE = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "flinkwatch-cluster-state", "namespace": "flinkwatch"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}},
}


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [([CLAIM_OF_ONE_NODE], "spec is immutable"), (REFUSES_STATEFULSETS, "no StatefulSets here")],
    ids=["an immutable field", "an admission policy"],
)
def test_a_move_that_the_api_server_refuses_changes_nothing(
    installed: Installed, obstacle: list[dict[str, object]], reason: str
) -> None:
    assert installed.apply("single").returncode == 0
    installed.rolled_out("deployment/flinkwatch")
    installed.plane.done("create", "--filename", "-", given=obstacle)
    try:
        # A policy is in force a moment after it is made.
        eventually(lambda: reason in installed.apply("cluster", "--dry-run=server").stderr)
        objects, drivers = installed.objects(), installed.drivers().keys()
        done = installed.move("cluster")
        assert done.returncode == 1
        assert reason in done.stderr
        assert "nothing was changed" in done.stderr
        assert installed.objects() == objects
        assert installed.drivers().keys() == drivers
    finally:
        installed.plane.done("delete", "--filename", "-", "--wait=false", given=obstacle)


def test_a_driver_beside_another_one_is_not_scheduled_and_move_sorts_it_out(
    installed: Installed, node: Kubelet
) -> None:
    """`kubectl apply -k` of the other overlay, without k8s/move.sh."""
    assert installed.apply("single").returncode == 0
    installed.rolled_out("deployment/flinkwatch")
    (first,) = installed.drivers()
    assert installed.apply("cluster").returncode == 0
    eventually(lambda: "didn't match pod anti-affinity rules" in waits_for(installed, "flinkwatch-0"))
    assert installed.drivers()[first]["status"]["phase"] == "Running"
    assert node.on_node == 1
    done = installed.move("cluster")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(installed.drivers()) == ["flinkwatch-0"]
    assert node.on_node == 1


def test_a_second_driver_is_scheduled_once_the_first_is_deleted(installed: Installed, node: Kubelet) -> None:
    assert installed.apply("cluster").returncode == 0
    installed.rolled_out("statefulset/flinkwatch")
    assert installed.apply("single").returncode == 0
    eventually(lambda: any("anti-affinity" in waits_for(installed, name) for name in installed.drivers()))
    installed.plane.done("--namespace", "flinkwatch", "delete", "statefulset/flinkwatch")
    installed.rolled_out("deployment/flinkwatch")
    assert node.on_node == 1


def waits_for(here: Installed, pod: str) -> str:
    """Why the scheduler has not placed a pod."""
    conditions = here.drivers().get(pod, {}).get("status", {}).get("conditions", [])
    return " ".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")


def test_a_driver_that_was_stopped_by_hand_is_moved_too(installed: Installed) -> None:
    assert installed.apply("single").returncode == 0
    installed.rolled_out("deployment/flinkwatch")
    installed.plane.done("--namespace", "flinkwatch", "scale", "deployment/flinkwatch", "--replicas=0")
    eventually(lambda: not installed.drivers())
    assert installed.move("cluster").returncode == 0
    assert list(installed.drivers()) == ["flinkwatch-0"]


def test_without_an_installation_move_says_so_and_makes_nothing(plane: ControlPlane, node: Kubelet) -> None:
    done = Installed(plane).move("cluster")
    assert done.returncode == 1
    assert "there is no namespace flinkwatch" in done.stderr
    assert plane.kubectl("get", "namespace", "flinkwatch").returncode == 1


def test_the_driver_of_cluster_may_do_with_pods_what_spark_does_and_nothing_else(installed: Installed) -> None:
    assert installed.apply("cluster").returncode == 0
    assert installed.rights() == {"pods": "create get list watch delete deletecollection"}
    refused = [
        ("get", "secrets"),
        ("create", "pods", "--subresource=exec"),
        ("create", "serviceaccounts", "--subresource=token"),
        ("list", "pods", "--all-namespaces"),
        ("*", "*"),
    ]
    assert [each for each in refused if installed.may(*each)] == []
    assert installed.may("deletecollection", "pods")
    assert installed.move("single").returncode == 0
    assert installed.rights() == {}
    assert not installed.may("get", "pods")
