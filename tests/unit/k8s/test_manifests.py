"""The overlays agree with each other and with the program they run."""

from importlib.metadata import version
from pathlib import Path

import pytest

from sinks.delivery import service
from sinks.prometheus.http_server import PrometheusConfig, StatusServer
from streaming.configuration.settings import load
from streaming.job import supervisor
from tests.unit.k8s.manifests import (
    OVERLAYS,
    WITH_EXECUTORS,
    Manifest,
    driver,
    executor,
    find,
    overlay,
    settings_file,
)


def container(pod: Manifest) -> Manifest:
    (only,) = pod["spec"]["containers"]
    return only


def pods(name: str) -> list[Manifest]:
    """What runs with an overlay."""
    objects = overlay(name)
    return [driver(objects)] + ([executor(objects)] if name in WITH_EXECUTORS else [])


def mounts(pod: Manifest) -> dict[str, Manifest]:
    """Volume by mount path."""
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
    return {m["mountPath"]: volumes[m["name"]] for m in container(pod)["volumeMounts"]}


@pytest.mark.parametrize("name", OVERLAYS)
def test_pods_meet_the_restricted_standard_as_user_185_and_write_to_volumes_alone(name: str) -> None:
    for pod in pods(name):
        security = pod["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] == security["runAsGroup"] == security["fsGroup"] == 185
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container(pod)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert "/tmp" in mounts(pod)
    assert find(overlay(name), "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_configuration_is_valid_and_its_paths_are_mounted(name: str, tmp_path: Path) -> None:
    objects = overlay(name)
    settings = load(settings_file(objects, tmp_path), {})
    where = mounts(driver(objects))
    environment = {e["name"]: e.get("value") for e in container(driver(objects))["env"]}
    assert environment["FLINKWATCH_CONFIG"] == "/etc/flinkwatch/flinkwatch.yaml"
    assert where["/etc/flinkwatch"]["configMap"] == {"name": "flinkwatch"}
    assert where[str(settings.sinks.slack.token_file.parent)]["secret"]["optional"] is True
    (claim,) = (o["metadata"]["name"] for o in objects if o["kind"] == "PersistentVolumeClaim")
    for pod in pods(name):
        state = mounts(pod)[str(Path(settings.streaming.checkpoint).parent)]
        assert state["persistentVolumeClaim"] == {"claimName": claim}


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_change_of_the_configmap_reaches_the_running_pod(name: str) -> None:
    """Not by subPath, which is never updated, and under a name that stays."""
    objects = overlay(name)
    assert not any("subPath" in m for m in container(driver(objects))["volumeMounts"])
    assert find(objects, "ConfigMap", "flinkwatch")


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_pod_is_given_time_to_finish_its_batch_and_its_delivery(name: str, tmp_path: Path) -> None:
    objects = overlay(name)
    trigger = load(settings_file(objects, tmp_path), {}).streaming.trigger / 1000
    given = driver(objects)["spec"]["terminationGracePeriodSeconds"]
    assert given > trigger + supervisor.DRAIN_S + service._JOIN_S


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_page_answers_the_probes_on_the_port_of_the_configuration(name: str, tmp_path: Path) -> None:
    objects = overlay(name)
    pod = container(driver(objects))
    ports = {p["name"]: p["containerPort"] for p in pod["ports"]}
    port = load(settings_file(objects, tmp_path), {}).sinks.prometheus.port
    page = StatusServer(PrometheusConfig())
    paths = {probe: pod[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    assert {p: g["path"] for p, g in paths.items()} == {
        "startup": "/-/healthy",
        "liveness": "/-/healthy",
        "readiness": "/-/ready",
    }
    for get in paths.values():
        assert ports[get["port"]] == port
        assert page.answer(get["path"], "")[0] == 200
    (endpoint,) = find(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert ports[endpoint["port"]] == port
    assert page.answer(endpoint["path"], "")[0] == 200
    assert endpoint["honorLabels"] is True


@pytest.mark.parametrize("name", OVERLAYS)
def test_selectors_find_the_driver(name: str) -> None:
    objects = overlay(name)
    labels = driver(objects)["metadata"]["labels"]
    selectors = [
        o["spec"][key].get("matchLabels", o["spec"][key])
        for o in objects
        for key in ("selector", "podSelector")
        if key in o.get("spec", {})
    ]
    assert len(selectors) >= 3
    for selector in selectors:
        assert selector.items() <= labels.items()
        if name in WITH_EXECUTORS and "app.kubernetes.io/component" in selector:
            assert not selector.items() <= executor(objects)["metadata"]["labels"].items()


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_service_of_the_status_site_leads_to_it_and_the_site_answers_under_its_names(
    name: str, tmp_path: Path
) -> None:
    objects = overlay(name)
    (port,) = find(objects, "Service", "flinkwatch-site")["spec"]["ports"]
    ports = {p["name"]: p["containerPort"] for p in container(driver(objects))["ports"]}
    sinks = load(settings_file(objects, tmp_path), {}).sinks
    assert ports[port["targetPort"]] == sinks.prometheus.port
    namespace = find(objects, "Namespace")["metadata"]["name"]
    service = "flinkwatch-site"
    assert sinks.web.allowed_hosts == (service, f"{service}.{namespace}", f"{service}.{namespace}.svc")


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_network_policy_lets_through_what_the_job_needs(name: str, tmp_path: Path) -> None:
    objects = overlay(name)
    settings = load(settings_file(objects, tmp_path), {})
    policies = [o["spec"] for o in objects if o["kind"] == "NetworkPolicy"]
    brokers = {int(b.rpartition(":")[2]) for b in settings.kafka.access.bootstrap_servers.split(",")}
    spark = {int(v) for k, v in settings.streaming.spark.items() if k.endswith(".port")}
    assert {settings.sinks.prometheus.port, *spark} <= _ports(policies, "ingress")
    msk = {9092, 9094, 9096, 9098, 9194, 9196, 9198}
    assert {53, 443, 9093, *msk, *brokers, *spark} <= _ports(policies, "egress")
    assert 22 not in _ports(policies, "egress")


def _ports(policies: list[Manifest], direction: str) -> set[int]:
    ranges = [p for policy in policies for rule in policy[direction] for p in rule["ports"]]
    return {port for p in ranges for port in range(p["port"], p.get("endPort", p["port"]) + 1)}


@pytest.mark.parametrize("name", OVERLAYS)
def test_only_a_driver_of_executors_may_speak_to_the_api_server(name: str) -> None:
    objects = overlay(name)
    pod = driver(objects)["spec"]
    rights = [r for o in objects if o["kind"] == "Role" for r in o["rules"]]
    assert not any(o["kind"].startswith("Cluster") for o in objects)
    assert find(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    if name in WITH_EXECUTORS:
        assert pod["automountServiceAccountToken"] is True
        assert executor(objects)["spec"]["automountServiceAccountToken"] is False
        assert [(r["apiGroups"], r["resources"]) for r in rights] == [([""], ["pods"])]
    else:
        assert pod["automountServiceAccountToken"] is False
        assert rights == []


@pytest.mark.parametrize("name", WITH_EXECUTORS)
def test_executors_run_the_image_of_the_driver(name: str) -> None:
    objects = overlay(name)
    (named,) = (e["value"] for e in container(driver(objects))["env"] if e["name"] == "FLINKWATCH_IMAGE")
    spec = next(o["spec"] for o in objects if o["kind"] in ("StatefulSet", "SparkApplication"))
    images = [
        container(driver(objects)).get("image"),
        spec.get("image"),
        spec.get("sparkConf", {}).get("spark.kubernetes.container.image"),
    ]
    assert [image for image in images if image] == [named]
    assert named == f"registry.example.org/flinkwatch:{version('flinkwatch')}"
