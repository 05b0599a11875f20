"""The sections of the configuration that are reloaded without a restart, and the records that carry them.

These sections are `detectors` (one block per kind, and `incidents`), `overrides`, `silences` and `maintenance`. They
reach the engine as one record of `flinkwatch.config`, so that a change is part of the input, is replayed with it, and
is applied completely or not at all. Each silence added on the command line is a record of its own: no one overwrites
another's.
"""

import hashlib
from collections import Counter
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from detectors import DETECTORS
from detectors.incident import Transition
from detectors.incidents.maintenance import MAX_WINDOWS, MaintenanceWindow
from detectors.incidents.settings import IncidentConfig
from detectors.incidents.silences import MAX_SILENCES, Silence
from detectors.settings.overrides import Override
from detectors.values.decoding import UndecodableError, carried, moment
from detectors.values.stored_format import StoredFormat

_LIFECYCLE = Field(default_factory=IncidentConfig, description="Settings of the lifecycle of incidents of all kinds.")
_BLOCKS: dict[str, Any] = {"incidents": (IncidentConfig, _LIFECYCLE)} | {
    d.kind: (d.Config, Field(default_factory=d.Config, description=d.Config.__doc__)) for d in DETECTORS
}

DetectorSettings: Any = create_model("DetectorSettings", __config__=ConfigDict(frozen=True, extra="forbid"), **_BLOCKS)
"""The section `detectors`: `incidents`, and one block per kind of incident."""


def _once(silences: tuple[Silence, ...]) -> tuple[Silence, ...]:
    twice = [i for i, n in Counter(s.id for s in silences).items() if n > 1]
    if twice:
        raise ValueError(f"the silence {twice[0]} occurs twice; give each silence its own id, or leave out the ids")
    return silences


Overrides = Annotated[tuple[Override, ...], Field(max_length=100)]
"""The section `overrides`. Its length is limited because each bucket has a reading for each override."""

Silences = Annotated[tuple[Silence, ...], Field(max_length=MAX_SILENCES), AfterValidator(_once)]
"""The section `silences`."""


Windows = Annotated[tuple[MaintenanceWindow, ...], Field(max_length=MAX_WINDOWS)]
"""The section `maintenance`."""


class LiveSettings(BaseModel):
    """The sections that are reloaded without a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    detectors: DetectorSettings = Field(default_factory=DetectorSettings, description="Thresholds of the detectors.")
    overrides: Overrides = Field(
        (),
        description='Other thresholds for some clusters or jobs, such as [{cluster: "prod-*", detectors: '
        "{restart_loop: {count: 5}}}]. Each setting has the value of the first matching override that contains it.",
    )
    silences: Silences = Field(
        (),
        description="Silences, which mute the notifications of matching incidents for a time, such as [{job: "
        '"backfill-*", until: 2026-12-01T06:00:00Z, author: ann, comment: yearly backfill}]. Silenced incidents are '
        "still tracked.",
    )
    maintenance: Windows = Field(
        (),
        description="Maintenance windows, which are silences that come back every week, such as [{cluster: "
        '"prod-*", begin: "02:00", end: "04:00", days: [sun], time_zone: Europe/Berlin, comment: node patching}].',
    )


CONFIG_KEY = b"detectors"
"""Key of the record with the sections."""

SILENCE_KEY = b"silence/"
"""Prefix of the keys of records with one silence each; the silence's ID follows."""

RESOLVE_KEY = b"resolve/"
"""Prefix of the keys of records that end one incident each; the incident's ID follows."""

Origin = Literal["file", "apply", "rollback"]


class PublishedConfiguration(msgspec.Struct, frozen=True, tag_field="version", tag=1):
    """A configuration record: the sections as written, their hash, when (epoch ms), by whom and how published."""

    hash: str
    at: int
    by: str
    detectors: dict[str, Any]
    overrides: list[dict[str, Any]] = []
    silences: list[dict[str, Any]] = []
    maintenance: list[dict[str, Any]] = []
    origin: Origin = "file"

    def live(self) -> LiveSettings:
        """The settings. Raises pydantic.ValidationError when they are another version's."""
        return LiveSettings.model_validate({name: getattr(self, name) for name in LiveSettings.model_fields})


class PublishedSilence(msgspec.Struct, frozen=True, tag_field="version", tag=1):
    """A silence record: the silence, when (epoch ms) and by whom published. A later one replaces it by its ID."""

    silence: dict[str, Any]
    at: int
    by: str

    def read(self) -> Silence:
        """The silence. Raises pydantic.ValidationError when it is another version's."""
        return Silence.model_validate(self.silence)

    def ends(self) -> int:
        return int(datetime.fromisoformat(self.silence["until"]).timestamp() * 1000)


class PublishedResolution(msgspec.Struct, frozen=True, tag_field="version", tag=1):
    """A person's request to end an incident: when (epoch ms), by whom and why.

    `last` is the incident's newest transition then, from which it is ended if the job has forgotten its cluster.
    """

    last: Transition
    at: int
    by: str
    comment: str

    @property
    def reason(self) -> str:
        return f"resolved by {self.by}: {self.comment}"


def publish(live: LiveSettings, at: int, by: str, origin: Origin = "file") -> PublishedConfiguration:
    """The settings as a record. The hash depends only on the settings."""
    body = live.model_dump(mode="json")
    return PublishedConfiguration(settings_hash(live), at, by, **body, origin=origin)


def publish_silence(silence: Silence, at: int, by: str) -> PublishedSilence:
    return PublishedSilence(silence.model_dump(mode="json"), at, by)


PublishedChange = PublishedConfiguration | PublishedSilence | PublishedResolution


def settings_hash(live: LiveSettings) -> str:
    """Eight hex digits that identify these settings in every transition."""
    body = msgspec.json.encode(live.model_dump(mode="json"), order="sorted")
    return hashlib.sha256(body).hexdigest()[:8]


encode_published = msgspec.json.Encoder().encode
CONFIGURATION_FORMAT = StoredFormat("the configuration", PublishedConfiguration, msgspec.json)
SILENCE_FORMAT = StoredFormat("the silence", PublishedSilence, msgspec.json)
RESOLUTION_FORMAT = StoredFormat("the request to end an incident", PublishedResolution, msgspec.json)
_MAX_BYTES = 1024 * 1024
_MAX_BY = 200
_MAX_COMMENT = 500


@carried
def read_published(value: bytes) -> PublishedConfiguration:
    """Decodes and normalizes a configuration record. Raises UndecodableError if it or its settings are not valid."""
    found = CONFIGURATION_FORMAT.decode(value)
    # The hash is computed again: a forged one would otherwise appear in every message.
    return publish(found.live(), moment(found.at), found.by[:_MAX_BY], found.origin)


@carried
def read_silence(value: bytes) -> PublishedSilence:
    """Decodes and normalizes the record of a silence. Raises UndecodableError if it is not valid."""
    found = SILENCE_FORMAT.decode(value)
    return publish_silence(found.read(), moment(found.at), found.by[:_MAX_BY])


@carried
def read_resolution(value: bytes) -> PublishedResolution:
    """Decodes and normalizes the record that ends an incident. Raises UndecodableError if it is not valid."""
    found = RESOLUTION_FORMAT.decode(value)
    cut = {"by": found.by[:_MAX_BY], "comment": found.comment[:_MAX_COMMENT]}
    for time in (found.last.at, found.last.opened_at):
        moment(time)
    return msgspec.structs.replace(found, at=moment(found.at), **cut)


def read_change(key: bytes | None, value: bytes | None) -> PublishedChange | None:
    """What a record of the topic changes; None for other records. Raises UndecodableError."""
    if key is None or value is None:
        return None
    if len(value) > _MAX_BYTES:
        raise UndecodableError("too_large", f"the record has {len(value)} bytes, more than the limit of {_MAX_BYTES}")
    if key == CONFIG_KEY:
        return read_published(value)
    if key.startswith(RESOLVE_KEY):
        return read_resolution(value)
    return read_silence(value) if key.startswith(SILENCE_KEY) else None
