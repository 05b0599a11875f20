"""An installation of k8s/ on a control plane: its namespace and volumes, what exists in it, and k8s/move.sh."""

import copy
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.kubernetes.control_plane import ControlPlane, Object, missing
from tests.unit.k8s.manifests import K8S, _schemas

needs_control_plane = pytest.mark.skipif(
    bool(missing()), reason=f"needs {', '.join(missing())}: tests/e2e/kubernetes/build.sh builds all but kubectl"
)

ACCOUNT = "system:serviceaccount:flinkwatch:flinkwatch"
# What a claim may be bound to; there is nobody who would make volumes.
VOLUMES = {"flinkwatch-state": ("ReadWriteOnce", "10Gi"), "flinkwatch-cluster-state": ("ReadWriteMany", "20Gi")}
KINDS = (
    "deployments,statefulsets,services,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,persistentvolumeclaims,"
    "poddisruptionbudgets,podmonitors,prometheusrules"
)


def definitions() -> Iterator[Object]:
    """The CRDs of the operators, from the schemas of tests/unit/k8s."""
    for key, schema in _schemas()["custom"].items():
        group, version, kind = key.split("/")
        root = _structural(schema)
        root["properties"] |= {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
        }
        plural = f"{kind.lower()}s"
        # Groups of k8s.io ask for it.
        approval = {"api-approved.kubernetes.io": "unapproved, for tests"}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}", "annotations": approval},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
                "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}],
            },
        }


def _structural(schema: Any) -> Any:
    """As the CRD has it: make_schemas.py closes objects and names the types of what is a number or a text."""
    if isinstance(schema, list):
        return [_structural(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {k: _structural(v) for k, v in schema.items()}
    if plain.get("additionalProperties") is False:
        del plain["additionalProperties"]
    if plain.get("x-kubernetes-int-or-string") is True:
        plain.pop("type", None)
    return plain


class Installed:
    """The namespace `flinkwatch` of a control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def make(self) -> None:
        """The volumes, and the namespace."""
        volumes = [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "accessModes": [mode],
                    "capacity": {"storage": size},
                    "hostPath": {"path": f"/var/{name}"},
                    "claimRef": {"namespace": "flinkwatch", "name": name},
                },
            }
            for name, (mode, size) in VOLUMES.items()
        ]
        self.plane.done("create", "--filename", "-", given=volumes)
        self.plane.done("apply", "--filename", str(K8S / "base" / "namespace.yaml"))

    def remove(self) -> None:
        """Everything."""
        self.plane.done("delete", "namespace", "flinkwatch", "--ignore-not-found", "--timeout=240s")
        self.plane.done("delete", "persistentvolume", "--ignore-not-found", *VOLUMES)

    def apply(self, overlay: str, *options: str) -> subprocess.CompletedProcess[str]:
        """kubectl apply -k, as the docs have it."""
        return self.plane.kubectl("apply", "--kustomize", str(K8S / "overlays" / overlay), *options)

    def move(self, target: str) -> subprocess.CompletedProcess[str]:
        """k8s/move.sh."""
        return subprocess.run(
            [K8S / "move.sh", target],
            env=self.plane.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def get(self, *what: str) -> Any:
        """Objects of the namespace, as JSON."""
        return json.loads(self.plane.done("--namespace", "flinkwatch", "get", *what, "--output", "json"))

    def objects(self) -> dict[str, str]:
        """What exists in the namespace, pods left out, and its content."""
        found = self.get(KINDS)["items"]
        return {f"{o['kind']}/{o['metadata']['name']}": _content(o) for o in found}

    def drivers(self) -> dict[str, Object]:
        """The drivers' pods by name."""
        return {p["metadata"]["name"]: p for p in self.get("pods", "--selector", SELECTOR)["items"]}

    def rolled_out(self, workload: str) -> None:
        """Returns once its pod is ready."""
        self.plane.done("--namespace", "flinkwatch", "rollout", "status", workload, "--timeout=180s")

    def may(self, *what: str) -> bool:
        """What the pods' account is allowed, as `kubectl auth can-i` asks."""
        asked = self.plane.kubectl("--namespace", "flinkwatch", "auth", "can-i", *what, "--as", ACCOUNT)
        assert asked.stdout.strip() in ("yes", "no"), asked.stderr
        return asked.stdout.strip() == "yes"

    def rights(self) -> dict[str, str]:
        """All that it is allowed, verbs by resource, but for what every account may ask of itself."""
        listed = self.plane.done("--namespace", "flinkwatch", "auth", "can-i", "--list", "--as", ACCOUNT)
        rows = [line for line in listed.splitlines()[1:] if not line.startswith((" ", "selfsubject"))]
        return {row.split()[0]: row[row.rindex("[") + 1 : row.rindex("]")] for row in rows}


SELECTOR = "app.kubernetes.io/name=flinkwatch,app.kubernetes.io/component=driver"


def _content(manifest: Object) -> str:
    """Everything but what controllers write: status and the API server's own account of changes."""
    plain = copy.deepcopy(manifest)
    plain.pop("status", None)
    for field in ("resourceVersion", "managedFields"):
        plain["metadata"].pop(field, None)
    return json.dumps(plain, sort_keys=True)


def eventually(met: Callable[[], bool], within: float = 180) -> None:
    """Returns once `met`."""
    deadline = time.monotonic() + within
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.3)
