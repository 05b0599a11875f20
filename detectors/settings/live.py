"""The part of the configuration that the stream itself works with, and the records in which it travels.

Three sections of the file reload live: `detectors` (one block per kind, and `incidents`), `overrides` and `silences`.
They reach the engine as one record of `flinkwatch.config`, so that a change is part of the input, replays like it, and
is whole or not there. Silences made on the command line are records of their own: two people never undo each other's.
"""

import hashlib
from collections import Counter
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from detectors import DETECTORS
from detectors.incidents.lifecycle import IncidentConfig
from detectors.incidents.silences import MAX_SILENCES, Silence
from detectors.settings.overrides import Override
from detectors.values.decoding import UndecodableError, carried, moment


class _LiveSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    incidents: IncidentConfig = Field(
        default_factory=IncidentConfig, description="The life of an incident, whatever found it."
    )


_BLOCKS: dict[str, Any] = {
    d.kind: (d.Config, Field(default_factory=d.Config, description=d.Config.__doc__)) for d in DETECTORS
}

DetectorSettings: Any = create_model("DetectorSettings", __base__=_LiveSection, **_BLOCKS)
"""The section `detectors`: `incidents`, and one block per kind of incident."""


def _once(silences: tuple[Silence, ...]) -> tuple[Silence, ...]:
    twice = [i for i, n in Counter(s.id for s in silences).items() if n > 1]
    if twice:
        raise ValueError(f"the silence {twice[0]} is there twice; give each another id, or leave the ids out")
    return silences


Overrides = Annotated[tuple[Override, ...], Field(max_length=100)]
"""The section `overrides`; a reading is kept of each in each bucket."""

Silences = Annotated[tuple[Silence, ...], Field(max_length=MAX_SILENCES), AfterValidator(_once)]
"""The section `silences`."""


class LiveSettings(BaseModel):
    """The sections that reload without a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    detectors: DetectorSettings = Field(default_factory=DetectorSettings, description="Thresholds; these reload live.")
    overrides: Overrides = Field(
        (),
        description='Other thresholds for some clusters or jobs, such as [{cluster: "prod-*", detectors: '
        "{restart_loop: {count: 5}}}]. Each setting has the value of the first override that fits and names it.",
    )
    silences: Silences = Field(
        (),
        description='Incidents that are followed but told to nobody until a time, such as [{job: "backfill-*", until: '
        "2026-12-01T06:00:00Z, author: ann, comment: yearly backfill}].",
    )


CONFIG_KEY = b"detectors"
"""Key of the record that holds the three sections."""

SILENCE_KEY = b"silence/"
"""What the keys of records with one silence each begin with; its id follows."""

Origin = Literal["file", "apply", "rollback"]


class PublishedConfiguration(msgspec.Struct, frozen=True):
    """The value of a configuration record: the sections as written and their hash; published when (epoch ms), by whom,
    and from where.
    """

    hash: str
    at: int
    by: str
    detectors: dict[str, Any]
    overrides: list[dict[str, Any]] = []
    silences: list[dict[str, Any]] = []
    origin: Origin = "file"

    def live(self) -> LiveSettings:
        """The settings. Raises pydantic.ValidationError when they are another version's."""
        return LiveSettings.model_validate(
            {"detectors": self.detectors, "overrides": self.overrides, "silences": self.silences}
        )


class PublishedSilence(msgspec.Struct, frozen=True):
    """The value of a silence record, when it was published (epoch ms) and by whom. One with the same id that was
    published later takes its place.
    """

    silence: dict[str, Any]
    at: int
    by: str

    def read(self) -> Silence:
        """The silence. Raises pydantic.ValidationError when it is another version's."""
        return Silence.model_validate(self.silence)

    def ends(self) -> int:
        """When it ends, epoch ms."""
        return int(datetime.fromisoformat(self.silence["until"]).timestamp() * 1000)


def publish(live: LiveSettings, at: int, by: str, origin: Origin = "file") -> PublishedConfiguration:
    """The settings as a record; the hash depends on the settings alone."""
    body = live.model_dump(mode="json")
    return PublishedConfiguration(settings_hash(live), at, by, **body, origin=origin)


def publish_silence(silence: Silence, at: int, by: str) -> PublishedSilence:
    """The silence as a record."""
    return PublishedSilence(silence.model_dump(mode="json"), at, by)


def settings_hash(live: LiveSettings) -> str:
    """Eight hex digits that name these settings in every transition."""
    body = msgspec.json.encode(live.model_dump(mode="json"), order="sorted")
    return hashlib.sha256(body).hexdigest()[:8]


encode_published = msgspec.json.Encoder().encode
_MAX_BYTES = 1024 * 1024
_MAX_BY = 200


def _read_published(value: bytes) -> PublishedConfiguration:
    found = _decode(value)
    # Written out in full, and with the hash of what it says: a hash that was written by hand would name these settings
    # in every message.
    return publish(found.live(), moment(found.at), found.by[:_MAX_BY], found.origin)


def _read_silence(value: bytes) -> PublishedSilence:
    found = _decode_silence(value)
    return publish_silence(found.read(), moment(found.at), found.by[:_MAX_BY])


_decode = msgspec.json.Decoder(PublishedConfiguration).decode
_decode_silence = msgspec.json.Decoder(PublishedSilence).decode

read_published = carried(_read_published)
"""The record's value as it counts; raises UndecodableError when it is none or its settings are not valid."""

read_silence = carried(_read_silence)
"""The silence record's value, written out in full; raises UndecodableError when it is none or not valid."""


def read_change(key: bytes | None, value: bytes | None) -> PublishedConfiguration | PublishedSilence | None:
    """What a record of the topic changes; None for one that is neither. Raises UndecodableError if it is not valid."""
    if key is None or value is None:
        return None
    if len(value) > _MAX_BYTES:
        raise UndecodableError("too_large", f"{len(value)} bytes; at most {_MAX_BYTES} are read")
    if key == CONFIG_KEY:
        return read_published(value)
    return read_silence(value) if key.startswith(SILENCE_KEY) else None
