"""docs/configuration.md, made from the pydantic models: it cannot say anything else than the code does."""

import json
from collections.abc import Iterator
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from detectors.incidents.silences import Silence
from detectors.settings.live import DetectorSettings
from detectors.settings.overrides import Override
from detectors.values.durations import format_duration
from sinks.routing import QuietHours, Route
from streaming.configuration.settings import RESTART_ONLY, Settings
from streaming.reference.json_schema import DURATION, MOMENT, TIME, schema_of
from streaming.reference.page_text import HEAD, OVERRIDES, SILENCES

_COLUMNS = "| setting | type | default | allowed | change | why |\n| --- | --- | --- | --- | --- | --- |\n"
_ITEMS: tuple[tuple[str, type[BaseModel], str], ...] = (
    ("overrides", Override, OVERRIDES),
    ("silences", Silence, SILENCES),
    ("sinks.routing.routes", Route, "Rules for where a new message goes; the first that fits decides.\n"),
    ("sinks.routing.quiet_hours", QuietHours, "Times at which new incidents wait.\n"),
)
_WRITTEN = {DURATION: "duration", MOMENT: "time with zone", TIME: "time of day"}
_TYPES = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}


def configuration_page() -> str:
    """The text of docs/configuration.md."""
    settings = Settings()
    parts = [HEAD]
    for section, field in Settings.model_fields.items():
        value = getattr(settings, section)
        if not isinstance(value, BaseModel):
            continue
        parts.append(f"\n## `{section}`\n\n{field.description}\n")
        if isinstance(value, DetectorSettings):
            parts += [_detector(kind, getattr(value, kind)) for kind in DetectorSettings.model_fields]
        else:
            parts += ["\n", _COLUMNS, *_rows(value, "", section in RESTART_ONLY)]
    for name, model, about in _ITEMS:
        fixed = name.split(".", maxsplit=1)[0] in RESTART_ONLY
        parts.append(f"\n## Entries of `{name}`\n\n{about}\n{_COLUMNS}")
        schema = schema_of(model)["properties"]
        for key, field in model.model_fields.items():
            written = field.alias or key
            default = None if field.is_required() else schema[written].get("default", [])
            shown = "needed" if field.is_required() else _yaml(default)
            parts.append(_row(written, field, schema[written], shown, fixed=fixed))
    return "".join(parts)


def _detector(kind: str, block: BaseModel) -> str:
    field = DetectorSettings.model_fields[kind]
    about = field.description if kind == "incidents" else f"[Runbook](runbooks/{kind}.md)."
    return "".join([f"\n### `detectors.{kind}`\n\n{about}\n\n", _COLUMNS, *_rows(block, "", fixed=False)])


def _rows(model: BaseModel, prefix: str, fixed: bool) -> Iterator[str]:
    values = model.model_dump(mode="json", by_alias=True)
    schema = schema_of(type(model))["properties"]
    for name, field in type(model).model_fields.items():
        value, written = getattr(model, name), field.alias or name
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{prefix}{written}.", fixed)
        else:
            yield _row(f"{prefix}{written}", field, schema[written], _yaml(values[written]), fixed=fixed)


def _row(name: str, field: FieldInfo, schema: dict[str, Any], default: str, *, fixed: bool) -> str:
    cells = (f"`{name}`", _type(schema), default, _allowed(field, schema), "restart" if fixed else "live")
    why = " ".join((field.description or "").split())
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (*cells, why.replace("<", "&lt;"))) + " |\n"


def _yaml(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(schema: dict[str, Any]) -> str:
    if schema.get("pattern") in _WRITTEN:
        return _WRITTEN[schema["pattern"]]
    if "anyOf" in schema:
        return " or ".join("null" if one.get("type") == "null" else _type(one) for one in schema["anyOf"])
    if "$ref" in schema:
        return "block"
    if "enum" in schema:
        return "one of"
    if schema["type"] == "array":
        return f"list: {_type(schema['items'])}"
    return _TYPES.get(schema["type"], "mapping")


def _allowed(field: FieldInfo, schema: dict[str, Any]) -> str:
    """What is allowed beside the type."""
    if "enum" in schema.get("items", schema):
        return ", ".join(f"`{one}`" for one in schema.get("items", schema)["enum"])
    bounds = {type(one): one for one in field.metadata if isinstance(one, Ge | Gt | Le | Lt)}
    show = format_duration if schema.get("pattern") == DURATION else str
    said = [
        f"{sign} {show(getattr(bounds[kind], name))}"
        for kind, name, sign in ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))
        if kind in bounds
    ]
    if (pattern := schema.get("pattern")) and pattern not in _WRITTEN:
        said.append(f"`{pattern}`")
    if most := schema.get("maxLength"):
        said.append(f"≤ {most} characters")
    if schema.get("minItems") or schema.get("minProperties"):
        said.append("at least one")
    return ", ".join(said)
