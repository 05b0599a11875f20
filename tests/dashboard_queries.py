"""What the dashboards ask of Prometheus: every panel, menu and annotation, with Grafana's variables filled in."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "conf" / "grafana" / "dashboards"
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
