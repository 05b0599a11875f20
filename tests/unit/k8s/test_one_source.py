"""What Grafana and Prometheus are given is what stands in conf/."""

import pytest
import yaml

from tests.unit.k8s.manifests import K8S, OVERLAYS, PROJECT, find, overlay


@pytest.mark.parametrize("name", OVERLAYS)
def test_dashboards_are_those_of_conf_grafana(name: str) -> None:
    maps = [o for o in overlay(name) if o["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    shipped = {file: text for o in maps for file, text in o["data"].items()}
    assert shipped == {f.name: f.read_text() for f in (PROJECT / "conf" / "grafana").rglob("*.json")}
    # `kubectl apply` keeps a copy in an annotation, which holds no more.
    assert all(len(text.encode()) < 250_000 for text in shipped.values())


def test_prometheus_rules_are_those_of_conf_prometheus(request: pytest.FixtureRequest) -> None:
    """`--regenerate` writes the file anew."""
    groups = [
        group
        for file in sorted((PROJECT / "conf" / "prometheus").glob("*.rules.yaml"))
        for group in yaml.safe_load(file.read_text())["groups"]
    ]
    file = K8S / "base" / "prometheusrule.yaml"
    if request.config.getoption("--regenerate"):
        rule = {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "flinkwatch"},
            "spec": {"groups": groups},
        }
        head = "# Made from conf/prometheus/*.rules.yaml: python -m pytest tests/unit/k8s --regenerate\n"
        file.write_text(head + yaml.safe_dump(rule, sort_keys=False, allow_unicode=True, width=120))
    assert len(groups) >= 2
    for name in OVERLAYS if not request.config.getoption("--regenerate") else ():
        assert find(overlay(name), "PrometheusRule")["spec"]["groups"] == groups
