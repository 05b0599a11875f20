"""Writes the dashboards: `python -m dashboards`."""

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.cluster import cluster
from dashboards.fleet import fleet
from dashboards.flinkwatch import flinkwatch

FOLDER = Path(__file__).parents[1] / "conf" / "grafana" / "dashboards"


def dashboards() -> dict[str, str]:
    """Every dashboard as Grafana reads it, by the name of its file."""
    made = {"fleet": fleet(), "cluster": cluster(), "flinkwatch": flinkwatch()}
    written = {
        name: json.dumps(one.build(), cls=JSONEncoder, indent=2, ensure_ascii=False) for name, one in made.items()
    }
    return {f"{name}.json": f"{text}\n" for name, text in written.items()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in dashboards().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
