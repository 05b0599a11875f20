"""Kubernetes and the operators accept what the overlays say: their schemas, oldest and newest, and kube-score."""

import copy
import subprocess

import pytest
import yaml

from tests.unit.k8s.manifests import (
    KUBE_SCORE,
    OVERLAYS,
    WITH_EXECUTORS,
    driver,
    executor,
    find,
    overlay,
    problems,
    tool,
)

VERSIONS = ("1.30", "1.37")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OVERLAYS)
def test_every_object_fits_its_schema(name: str, version: str) -> None:
    objects = overlay(name)
    # What the SparkApplication of Kubeflow's operator leaves open, and what only Spark reads.
    objects += ({"apiVersion": "v1", "kind": "PodTemplate", "template": driver(objects)},)
    if name in WITH_EXECUTORS:
        objects += (executor(objects),)
    assert [problem for o in objects for problem in problems(o, version)] == []


@pytest.mark.parametrize(
    ("name", "kind", "path", "key"),
    [
        ("single", "Deployment", ("spec", "template", "spec"), "terminationGracePeriodSecond"),
        ("cluster", "StatefulSet", ("spec",), "strategy"),
        ("single", "PodMonitor", ("spec", "podMetricsEndpoints", 0), "honourLabels"),
        ("spark-operator/kubeflow", "SparkApplication", ("spec", "driver"), "coresLimit"),
        ("spark-operator/apache", "SparkApplication", ("spec",), "driverArguments"),
    ],
)
def test_a_misspelt_field_is_found(name: str, kind: str, path: tuple[str | int, ...], key: str) -> None:
    manifest = copy.deepcopy(find(overlay(name), kind))
    place = manifest
    for part in path:
        place = place[part]  # type: ignore[index]
    place[key] = 90
    assert any(key in problem for problem in problems(manifest, VERSIONS[0]))


def test_a_value_of_another_type_is_found() -> None:
    manifest = copy.deepcopy(find(overlay("single"), "NetworkPolicy"))
    manifest["spec"]["egress"][1]["ports"][0]["endPort"] = "9094"
    assert any("endPort" in problem for problem in problems(manifest, VERSIONS[0]))


def test_a_kind_without_a_schema_is_a_problem() -> None:
    assert list(problems({"apiVersion": "v2", "kind": "Deployment"}, VERSIONS[0]))


# The first run on a machine builds kube-score.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["single", "cluster"])
def test_kube_score_has_nothing_to_say(name: str) -> None:
    command = [*tool("kube-score", KUBE_SCORE), "score", "--output-format", "ci", "-"]
    done = subprocess.run(command, input=yaml.safe_dump_all(overlay(name)), capture_output=True, text=True, check=False)
    assert done.stdout.count("[OK]") > 10, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith(("[OK]", "[SKIPPED]"))] == []
