"""An installation can move from one overlay to another: nothing that exists is asked to change what cannot be changed,
and no two drivers run side by side meanwhile.
"""

import itertools
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.k8s.manifests import K8S, OVERLAYS, Manifest, driver, executor, find, overlay

# What an API server refuses to change, by kind. A claim may only ask for more room.
IMMUTABLE: dict[str, tuple[str, ...]] = {
    "PersistentVolumeClaim": ("spec.accessModes", "spec.storageClassName", "spec.volumeName", "spec.selector"),
    "Deployment": ("spec.selector",),
    "StatefulSet": (
        "spec.selector",
        "spec.serviceName",
        "spec.volumeClaimTemplates",
        "spec.podManagementPolicy",
        "spec.revisionHistoryLimit",
    ),
    "Service": ("spec.clusterIP",),
    "RoleBinding": ("roleRef",),
}
MOVES = list(itertools.permutations(OVERLAYS, 2))


def field(manifest: Manifest, path: str) -> Any:
    for part in path.split("."):
        manifest = (manifest or {}).get(part)  # type: ignore[assignment]
    return manifest


def named(name: str) -> dict[tuple[str, str], Manifest]:
    return {(o["kind"], o["metadata"]["name"]): o for o in overlay(name)}


@pytest.mark.parametrize(("before", "after"), MOVES)
def test_nothing_immutable_differs_between_overlays(before: str, after: str) -> None:
    ours, theirs = named(before), named(after)
    changed = [
        (*key, path)
        for key in ours.keys() & theirs.keys()
        for path in IMMUTABLE.get(key[0], ())
        if field(ours[key], path) != field(theirs[key], path)
    ]
    assert changed == []


@pytest.mark.parametrize(("before", "after"), MOVES)
def test_a_claim_never_shrinks(before: str, after: str) -> None:
    ours, theirs = named(before), named(after)
    for key in ours.keys() & theirs.keys():
        if key[0] == "PersistentVolumeClaim":
            sizes = {field(one[key], "spec.resources.requests.storage") for one in (ours, theirs)}
            assert len(sizes) == 1


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_second_driver_is_not_scheduled_beside_one_of_any_overlay(name: str) -> None:
    (term,) = driver(overlay(name))["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    # A label that every node has, with the same value: the whole cluster is one place.
    assert term["topologyKey"] == "kubernetes.io/os"
    for other in OVERLAYS:
        assert term["labelSelector"]["matchLabels"].items() <= driver(overlay(other))["metadata"]["labels"].items()
        if other != "single":
            executors = executor(overlay(other))["metadata"]["labels"]
            assert not term["labelSelector"]["matchLabels"].items() <= executors.items()


def test_a_checkpoint_of_one_host_is_not_taken_for_that_of_a_cluster() -> None:
    """They differ in buckets and partitions: `single` and `cluster` have claims of their own."""

    def claims(name: str) -> set[str]:
        return {o["metadata"]["name"] for o in overlay(name) if o["kind"] == "PersistentVolumeClaim"}

    assert not claims("single") & claims("cluster")
    assert find(overlay("cluster"), "PersistentVolumeClaim", "flinkwatch-cluster-state")["spec"]["accessModes"] == [
        "ReadWriteMany"
    ]


KUBECTL = """#!/bin/sh
echo "$*" >> "$0.calls"
case "$*" in
*"get namespace/flinkwatch "*) cat "$0.namespace" 2>/dev/null || echo namespace/flinkwatch ;;
*--dry-run=server*) exit $(cat "$0.dry" 2>/dev/null || echo 0) ;;
*"create --kustomize overlays/single "*)
    printf '%s\\n' service/both persistentvolumeclaim/one deployment.apps/flinkwatch ;;
*"create --kustomize overlays/cluster "*)
    printf '%s\\n' service/both persistentvolumeclaim/two statefulset.apps/flinkwatch ;;
*" get deployment/flinkwatch "*) cat "$0.deployment" 2>/dev/null || true ;;
*" get statefulset/flinkwatch "*) cat "$0.statefulset" 2>/dev/null || true ;;
*" wait pod "*) exit $(cat "$0.wait" 2>/dev/null || echo 0) ;;
esac
"""


def move(folder: Path, *arguments: str, **answers: str) -> tuple[int, list[str]]:
    """Runs k8s/move.sh with a kubectl that notes its calls; `answers` are what it finds."""
    kubectl = folder / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    for name, text in answers.items():
        kubectl.with_name(f"kubectl.{name}").write_text(text)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        [K8S / "move.sh", *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    calls = kubectl.with_name("kubectl.calls")
    return done.returncode, calls.read_text().splitlines() if calls.exists() else []


def changes(calls: list[str]) -> list[str]:
    """What was changed, in order, in one word each."""
    words = {" scale ": "scale", " wait pod": "wait", " delete ": "delete"}
    made = []
    for call in calls:
        if "apply" in call and "dry-run" not in call:
            made.append("apply")
        made += [word for part, word in words.items() if part in call]
    return made


@pytest.mark.parametrize(("target", "old"), [("cluster", "deployment"), ("single", "statefulset")])
def test_the_driver_that_runs_is_gone_before_the_next_one_comes(tmp_path: Path, target: str, old: str) -> None:
    status, calls = move(tmp_path, target, "--context", "lab", **{old: f"{old}.apps/flinkwatch"})
    assert status == 0
    assert changes(calls) == ["scale", "wait", "delete", "apply"]
    assert all("--context lab" in call for call in calls)
    (deleted,) = (call for call in calls if " delete " in call)
    assert deleted.endswith(f" {old}.apps/flinkwatch")
    assert "service/both" not in deleted
    assert "persistentvolumeclaim" not in deleted


def test_nothing_is_stopped_when_the_api_server_would_refuse(tmp_path: Path) -> None:
    status, calls = move(tmp_path, "cluster", deployment="deployment.apps/flinkwatch", dry="1")
    assert status == 1
    assert changes(calls) == []


def test_nothing_is_applied_while_the_old_driver_is_still_there(tmp_path: Path) -> None:
    status, calls = move(tmp_path, "cluster", deployment="deployment.apps/flinkwatch", wait="1")
    assert status == 1
    assert changes(calls) == ["scale", "wait"]


def test_it_can_be_run_again(tmp_path: Path) -> None:
    status, calls = move(tmp_path, "cluster")
    assert status == 0
    assert changes(calls) == ["delete", "apply"]
    assert any(" delete --ignore-not-found " in call for call in calls)


def test_without_a_namespace_nothing_is_made(tmp_path: Path) -> None:
    status, calls = move(tmp_path, "cluster", namespace="")
    assert status == 1
    assert changes(calls) == []


def test_an_overlay_that_is_none_changes_nothing(tmp_path: Path) -> None:
    status, calls = move(tmp_path, "both")
    assert status == 2
    assert calls == []
