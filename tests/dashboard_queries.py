"""What the dashboards ask of Prometheus: every panel, menu and annotation, with Grafana's variables filled in."""

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.prometheus_server import Prometheus

FOLDER = Path(__file__).parents[1] / "conf" / "grafana" / "dashboards"
RULES = FOLDER.parents[1] / "prometheus"
NAMES = ("fleet", "cluster", "flinkwatch")
_MENU = re.compile(r"label_values\((?P<selector>.*), (?P<label>\w+)\)")


class Question(NamedTuple):
    """One query: where it stands, and the expression; for a menu `label` is the one whose values it takes."""

    where: str
    expr: str
    label: str = ""


def read(name: str) -> dict[str, Any]:
    """A dashboard as Grafana reads it."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def questions(dashboard: dict[str, Any], cluster: str = ".*") -> Iterator[Question]:
    """Everything it asks when all is chosen, and one cluster."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield Question(f"{panel['title']} {target['refId']}", filled(target["expr"], cluster))
    for annotation in dashboard["annotations"].get("list", []):
        if "expr" in annotation:
            yield Question(annotation["name"], filled(annotation["expr"], cluster))
    for menu in dashboard["templating"]["list"]:
        if menu["type"] == "query":
            found = _MENU.fullmatch(menu["query"])
            assert found is not None, menu["query"]
            yield Question(f"${menu['name']}", filled(found["selector"], cluster), found["label"])


def filled(expr: str, cluster: str) -> str:
    """An expression with everything chosen, and one cluster."""
    text = expr.replace("$__rate_interval", "1m").replace("$cluster", cluster)
    text = re.sub(r"\$(job|tm|instance)\b", ".*", text)
    assert "$" not in text, text
    return text


class Span(NamedTuple):
    """A server, and the times it has samples of, epoch s."""

    server: Prometheus
    first: float
    last: float
    step: float

    def data(self, dashboard: str, cluster: str = ".*") -> dict[str, bool]:
        """Whether each query of a dashboard has any."""
        return {
            one.where: bool(self.server.label_values(one.expr, one.label, self.first, self.last))
            if one.label
            else self._has_numbers(one.expr)
            for one in questions(read(dashboard), cluster)
        }

    def without(self, dashboard: str, cluster: str = ".*") -> list[str]:
        """The queries that have none."""
        return [where for where, has in self.data(dashboard, cluster).items() if not has]

    def _has_numbers(self, expr: str) -> bool:
        answer = self.server.over(expr, self.first, self.last, self.step)
        return any(not math.isnan(float(value)) for series in answer for _, value in series["values"])


def scraping(folder: Path, port: int) -> str:
    """The configuration that ships, with its rules, for a page on this host and a test in a hurry."""
    for rules in RULES.glob("*.rules.yaml"):
        shutil.copy(rules, folder)
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    return yaml.safe_dump(config)


def await_data(missing: Callable[[], set[Any]], within: float) -> set[Any]:
    """What is still missing when nothing is, or time is up."""
    deadline = time.monotonic() + within
    while (left := missing()) and time.monotonic() < deadline:
        time.sleep(1)
    return left
