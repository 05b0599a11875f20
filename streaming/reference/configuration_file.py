"""Generates conf/flinkwatch.yaml: every setting at its default, with its description as a comment.

It is made from the pydantic models, and a test compares the two.
"""

import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from streaming.configuration.settings import Settings

_WIDTH = 118
_HEAD = """\
# yaml-language-server: $schema=flinkwatch.schema.json
# flinkwatch: every setting with its default. A setting that is left out has its default.
# Durations have a unit: 500ms, 30s, 5m, 24h, 7d. Check a file with `flinkwatch config check FILE`.
# Environment variables override this file: FLINKWATCH__KAFKA__ACCESS__BOOTSTRAP_SERVERS=kafka-1:9092,kafka-2:9092
"""


def configuration_file() -> str:
    """The text of conf/flinkwatch.yaml."""
    return _HEAD + "\n".join(_section(Settings(), 0)) + "\n"


def _section(model: BaseModel, depth: int) -> Iterator[str]:
    indent = "  " * depth
    values = model.model_dump(mode="json")
    for name, field in type(model).model_fields.items():
        if depth == 0:
            yield ""
        for line in textwrap.wrap(field.description or "", _WIDTH - len(indent)):
            yield f"{indent}# {line}"
        value: Any = getattr(model, name)
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:"
            yield from _section(value, depth + 1)
        else:
            yield f"{indent}{name}: {_scalar(values[name])}"


def _scalar(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1_000).removesuffix("\n").removesuffix("...").strip()
