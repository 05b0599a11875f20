"""What the overlays say once kustomize has put them together."""

import functools
import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

PROJECT = Path(__file__).parents[3]
K8S = PROJECT / "k8s"
OVERLAYS = ("single", "cluster", "spark-operator/kubeflow", "spark-operator/apache")
WITH_EXECUTORS = OVERLAYS[1:]

KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.5.0"
KUBE_SCORE = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"

Manifest = dict[str, Any]


def tool(name: str, module: str) -> list[str]:
    """The command of a tool: from PATH, or built by Go; the test is skipped where there is neither."""
    if shutil.which(name):
        return [name]
    go = shutil.which("go")
    # Once built it is kept in Go's cache.
    if go and subprocess.run([go, "run", module, "version"], capture_output=True, check=False).returncode == 0:
        return [go, "run", module]
    pytest.skip(f"needs {name} on PATH, or Go and a module proxy to build {module}")


@functools.cache
def render(folder: Path) -> tuple[Manifest, ...]:
    """All objects of a kustomization."""
    kubectl = shutil.which("kubectl")
    command = [kubectl, "kustomize"] if kubectl else [*tool("kustomize", KUSTOMIZE), "build"]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def overlay(name: str) -> tuple[Manifest, ...]:
    """All objects of an overlay."""
    return render(K8S / "overlays" / name)


def find(objects: tuple[Manifest, ...], kind: str, name: str = "flinkwatch") -> Manifest:
    """The one object of a kind and name."""
    (found,) = (o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)
    return found


def driver(objects: tuple[Manifest, ...]) -> Manifest:
    """The pod template of the process that watches, whoever starts it."""
    for o in objects:
        match o:
            case {"kind": "Deployment" | "StatefulSet", "spec": {"template": template}}:
                return template
            case {"spec": {"driver": {"template": template}} | {"driverSpec": {"podTemplateSpec": template}}}:
                return template
    raise AssertionError("nobody starts a driver")


def executor(objects: tuple[Manifest, ...]) -> Manifest:
    """The pod that Spark's driver makes executors from."""
    return yaml.safe_load(find(objects, "ConfigMap")["data"]["executor.yaml"])


def settings_file(objects: tuple[Manifest, ...], folder: Path) -> Path:
    """flinkwatch.yaml as the pod finds it."""
    path = folder / "flinkwatch.yaml"
    path.write_text(find(objects, "ConfigMap")["data"]["flinkwatch.yaml"])
    return path


def problems(manifest: Manifest, version: str) -> Iterator[str]:
    """What an API server of that version, or the operator's CRD, would not accept."""
    schemas = _schemas()
    key = f"{manifest['apiVersion']}/{manifest['kind']}"
    kubernetes = schemas["kubernetes"][version]
    if key in schemas["custom"]:
        schema = schemas["custom"][key]
    elif key in kubernetes["kinds"]:
        schema = {**kubernetes["kinds"][key], "definitions": kubernetes["definitions"]}
        # A reference is looked for in the document, not below its public address.
        schema.pop("$id", None)
    else:
        yield f"{key}: no schema in schemas.json.gz; see make_schemas.py"
        return
    for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest):
        yield f"{key}: {error.json_path}: {error.message}"


@functools.cache
def _schemas() -> Manifest:
    return json.loads(gzip.decompress(Path(__file__).with_name("schemas.json.gz").read_bytes()))
