"""The JSON schema of the configuration file, for editors; conf/flinkwatch.schema.json is this text.

Made from the pydantic models (a test compares them). Draft 7 is the newest that yaml-language-server reads. What a
schema cannot say is left to `flinkwatch config check`: bounds of durations, patterns that compile, settings that must
fit together.
"""

import json
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from detectors import DETECTORS
from detectors.settings.live import DetectorSettings
from detectors.values.durations import Duration, format_duration
from streaming.configuration.settings import Settings

DURATION: str = TypeAdapter(Duration).json_schema()["pattern"]
"""What a duration looks like."""

# Patterns instead of formats: editors refuse "22:00" as a time, and a blank in a moment. A moment has a zone.
TIME = r"^\d{2}:\d{2}(:\d{2})?$"
MOMENT = r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:?\d{2})$"


class _Generator(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        """Titles would repeat the keys."""
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Durations as they are written."""
        found = super().default_schema(schema)
        if found.get("pattern") == DURATION and isinstance(found.get("default"), int):
            found["default"] = format_duration(found["default"])
        return found

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:  # noqa: ARG002
        return {"type": "string", "pattern": MOMENT}

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:  # noqa: ARG002
        return {"type": "string", "pattern": TIME}


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a part of the configuration."""
    return model.model_json_schema(schema_generator=_Generator)


def configuration_schema() -> str:
    """The text of conf/flinkwatch.schema.json."""
    document = schema_of(Settings)
    for definition in (document, *document["$defs"].values()):
        definition.pop("title", None)
    _type_overrides(document["$defs"])
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "flinkwatch's configuration"}
    text = json.dumps(head | document, indent=2, ensure_ascii=False)
    blocks = document["$defs"][DetectorSettings.__name__]["properties"]
    for kind, block in blocks.items():
        name = block["$ref"].removeprefix("#/$defs/")
        text = text.replace(f'"{name}"', f'"{kind}"').replace(f'"#/$defs/{name}"', f'"#/$defs/{kind}"')
    return text.replace('"$defs"', '"definitions"').replace('"#/$defs/', '"#/definitions/') + "\n"


def _type_overrides(definitions: dict[str, Any]) -> None:
    """Overrides know the kinds and their keys, and which are decided for a job."""
    override, kinds = definitions["Override"], definitions[DetectorSettings.__name__]["properties"]
    blocks = override["properties"]["detectors"]
    override["properties"]["detectors"] = {**blocks, "additionalProperties": False, "properties": kinds}
    override["if"] = {"required": ["job"], "properties": {"job": {"not": {"const": "*"}}}}
    per_job = [detector.kind for detector in DETECTORS if detector.per_job]
    override["then"] = {"properties": {"detectors": {"propertyNames": {"enum": per_job}}}}
