"""Makes schemas.json.gz: what the API server of Kubernetes and of each operator accepts.

    pip install --target /tmp/kv kubernetes-validate==1.37.0
    python tests/unit/k8s/make_schemas.py /tmp/kv CRD.yaml…

The CRDs are those of prometheus-operator 0.93 (podmonitors, prometheusrules), kubeflow/spark-operator 2.5
(sparkapplications) and apache/spark-kubernetes-operator 1.1 (sparkapplications), from their repositories.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import yaml

VERSIONS = ("1.30", "1.37")
KINDS = {
    "v1/ConfigMap": "configmap-v1",
    "v1/Namespace": "namespace-v1",
    "v1/PersistentVolumeClaim": "persistentvolumeclaim-v1",
    "v1/Pod": "pod-v1",
    "v1/PodTemplate": "podtemplate-v1",
    "v1/Service": "service-v1",
    "v1/ServiceAccount": "serviceaccount-v1",
    "apps/v1/Deployment": "deployment-apps-v1",
    "apps/v1/StatefulSet": "statefulset-apps-v1",
    "networking.k8s.io/v1/NetworkPolicy": "networkpolicy-networking-v1",
    "policy/v1/PodDisruptionBudget": "poddisruptionbudget-policy-v1",
    "rbac.authorization.k8s.io/v1/Role": "role-rbac-v1",
    "rbac.authorization.k8s.io/v1/RoleBinding": "rolebinding-rbac-v1",
}


def of_kubernetes(folder: Path, version: str) -> dict[str, Any]:
    """The strict schemas of KINDS, and the definitions they need."""
    schemas = folder / "kubernetes_validate" / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    known = json.loads((schemas / "_definitions.json").read_text())["$defs"]
    roots = {kind: _plain(json.loads((schemas / f"{name}.json").read_text())) for kind, name in KINDS.items()}
    needed: dict[str, Any] = {}
    waiting = list(_references(roots))
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = _plain(known[name])
            waiting += _references(needed[name])
    return {"definitions": needed, "kinds": roots}


def of_resource(crd: Path) -> dict[str, Any]:
    """The stored version of a custom resource; a field it does not name is an error, as with `kubectl --validate`."""
    (definition,) = (d for d in yaml.safe_load_all(crd.read_text()) if d)
    group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
    version = next(v for v in definition["spec"]["versions"] if v["storage"])
    schema = _closed(_plain(version["schema"]["openAPIV3Schema"]))
    # Every object has them, whether the CRD says so or not.
    for field in ("apiVersion", "kind", "metadata"):
        schema["properties"].setdefault(field, {})
    return {f"{group}/{version['name']}/{kind}": schema}


def _plain(schema: Any) -> Any:
    """Without descriptions, which are four fifths of it, and with references that lead into one document."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {k: _plain(v) for k, v in schema.items() if not (k == "description" and isinstance(v, str))}
    if isinstance(plain.get("$ref"), str):
        plain["$ref"] = "#/definitions/" + plain["$ref"].rpartition("/")[2]
    return plain


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {k: _closed(v) for k, v in schema.items()}
    keeps_all = closed.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object" and not keeps_all:
        closed.setdefault("additionalProperties", False)
    if closed.get("x-kubernetes-int-or-string"):
        closed["type"] = ["integer", "string"]
    return closed


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for part in schema for name in _references(part)]
    if not isinstance(schema, dict):
        return []
    here = [schema["$ref"].rpartition("/")[2]] if isinstance(schema.get("$ref"), str) else []
    return here + [name for part in schema.values() for name in _references(part)]


def main(folder: str, *crds: str) -> None:
    """Write the file."""
    custom = {key: schema for crd in crds for key, schema in of_resource(Path(crd)).items()}
    document = {"kubernetes": {v: of_kubernetes(Path(folder), v) for v in VERSIONS}, "custom": custom}
    text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    # Without a time in its head: the same input makes the same file.
    Path(__file__).with_name("schemas.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
