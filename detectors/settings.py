"""The part of the configuration that the stream itself works with, and the record in which it travels.

The section `detectors` of the file has one block per kind and `incidents`; all of it reloads live. It reaches the
engine as a record of `flinkwatch.config`, so that a change is part of the input and replays like it.
"""

import hashlib
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, create_model

from detectors import DETECTORS
from detectors.incidents.life import Life


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    incidents: Life = Field(default_factory=Life, description="The life of an incident, whatever found it.")


_BLOCKS: dict[str, Any] = {
    d.kind: (d.Config, Field(default_factory=d.Config, description=d.Config.__doc__)) for d in DETECTORS
}

DetectorSettings: Any = create_model("DetectorSettings", __base__=_Section, **_BLOCKS)
"""The section `detectors`: `incidents`, and one block per kind of incident."""


CONFIG_KEY = b"detectors"
"""Key of the record that holds the section `detectors`."""


class Published(msgspec.Struct, frozen=True):
    """The value of the key `detectors` of `flinkwatch.config`: settings as written, their hash, when and by whom."""

    hash: str
    at: int
    by: str
    detectors: dict[str, Any]


def publish(settings: Any, at: int, by: str) -> Published:
    """The settings as a record; the hash depends on the settings alone."""
    body = settings.model_dump(mode="json")
    return Published(settings_hash(settings), at, by, body)


def settings_hash(settings: Any) -> str:
    """Eight hex digits that name these settings in every transition."""
    body = msgspec.json.encode(settings.model_dump(mode="json"), order="sorted")
    return hashlib.sha256(body).hexdigest()[:8]


encode_published = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Published).decode


def read_published(value: bytes) -> Published:
    """The record's value; raises ValueError when it is none or its settings are not valid."""
    published = _decode(value)
    DetectorSettings.model_validate(published.detectors)
    return published
