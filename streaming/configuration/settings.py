"""The configuration file: every section, how it is read, and what an error in it says.

Order: defaults, then the file, then the environment (`FLINKWATCH__KAFKA__BOOTSTRAP_SERVERS=…`), then validation.
Unknown keys are errors. Secrets never stand in the file; sections name the environment variable or file that holds
them.
"""

import os
import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from detectors.events.identity import Identity
from detectors.settings.live import DetectorSettings, LiveSettings, Overrides, Silences
from detectors.values.durations import Duration
from sinks.kafka.access import KafkaAccess
from sinks.kafka.topics import TopicNames
from sinks.settings import Sinks
from streaming.configuration.validation_errors import explain
from streaming.configuration.yaml_document import NO_DOCUMENT, Place, YamlDocument, read_document
from streaming.errors import ConfigError

_ENVIRONMENT = "FLINKWATCH__"
_MASTER = re.compile(r"local(\[(\*|\d+)(, *\d+)?\])?|spark://[^\s,/]+:\d+(,[^\s,/]+:\d+)*|yarn|k8s://\S+")
_SECRET_PROPERTY = re.compile(r"(?i)(password|passphrase|secret|token)$|secret[._-]?key|account[._-]key")
_LIVE = LiveSettings.model_fields


class _Section(BaseModel):
    # Inputs stay out of errors: somebody may write a password where none belongs.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Kafka(_Section):
    """Where the records are, and where flinkwatch keeps its own topics; needs a restart when changed."""

    access: KafkaAccess = Field(
        default_factory=lambda: KafkaAccess(bootstrap_servers="localhost:9092"), description="How to reach the brokers."
    )
    logs: tuple[str, ...] = Field(("flink.logs",), min_length=1, description="Topics that hold log records.")
    metrics: tuple[str, ...] = Field(("flink.metrics",), description="Topics that hold metric records.")
    topics: TopicNames = Field(default_factory=TopicNames, description="flinkwatch's own topics.")

    @property
    def for_files(self) -> tuple[str, str]:
        """The topics under which log files and metric pages are read that are no recordings."""
        return self.logs[0], self.metrics[0] if self.metrics else "metrics"


class Streaming(_Section):
    """The Spark job; needs a restart when changed."""

    master: str = Field(
        "local[*]", description="Spark master: local[*] on one host, or a standalone, YARN or Kubernetes master."
    )
    checkpoint: str = Field(
        "/var/lib/flinkwatch/checkpoint",
        description="Directory or URI of the state and the offsets; must be shared by all executors, and kept.",
    )
    trigger: Duration = Field(
        1_000,
        ge=100,
        description="Time between batches: an incident is said at most about two triggers after its record.",
    )
    buckets: int = Field(
        8,
        ge=1,
        le=1024,
        description="State buckets; fixed at the first start. Each costs about 1 ms a batch, so few for a few "
        "hundred clusters.",
    )
    shuffle_partitions: int = Field(
        2,
        ge=1,
        le=64,
        description="Partitions of the stateful stage: as many as executor cores; fixed at the first start.",
    )
    max_offsets_per_trigger: int = Field(
        500_000,
        ge=1,
        description="Most records in one batch, so that catching up after an outage needs bounded memory.",
    )
    starting_offsets: Literal["latest", "earliest"] = Field(
        "latest", description="Where to begin in the log and metric topics when there is no checkpoint yet."
    )
    heartbeat: bool = Field(
        True,
        description="Write a heartbeat every trigger, which moves the clock when no record comes; off only when "
        "somebody else does.",
    )
    canary: Duration = Field(
        60_000,
        description="Time between canary records, which pass through the whole pipeline. /-/ready is false when none "
        "has come back for three times as long. 0s disables them, and so does heartbeat: false.",
    )
    metrics_port: int = Field(
        9109,
        ge=0,
        le=65535,
        description="TCP port of the job's own page with `run --no-deliver`; otherwise the page of sinks.prometheus "
        "has everything. 0 takes a free one.",
    )
    wait_for_brokers: Duration = Field(
        300_000,
        description="How long a start waits for the brokers, alive but not ready, before it ends with the reason. "
        "0s: not at all.",
    )
    driver_memory: str = Field(
        "768m", pattern=r"^\d+[mg]$", description="Heap of the driver's JVM (of the whole job with local[*])."
    )
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="Further Spark properties, which win over flinkwatch's own. No secrets: they would stand in "
        "the list of processes. Those belong into spark-defaults.conf in SPARK_CONF_DIR, or the environment.",
    )

    @field_validator("master")
    @classmethod
    def _master_is_one(cls, value: str) -> str:
        if not _MASTER.fullmatch(value):
            raise ValueError("must be local[*], local[4], spark://host:7077, yarn or k8s://https://host:port")
        return value

    @field_validator("spark")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        secrets = sorted(name for name in value if _SECRET_PROPERTY.search(name))
        if secrets:
            raise ValueError(
                f"{', '.join(secrets)} would stand in this file and in the list of processes; "
                f"put it into spark-defaults.conf in SPARK_CONF_DIR, or into the environment"
            )
        return value


class Settings(_Section):
    """The whole file."""

    kafka: Kafka = Field(default_factory=Kafka, description="Records and topics.")
    streaming: Streaming = Field(default_factory=Streaming, description="The Spark job.")
    identity: Identity = Field(default_factory=Identity, description="Which cluster a record belongs to.")
    detectors: DetectorSettings = Field(default_factory=DetectorSettings, description=_LIVE["detectors"].description)
    overrides: Overrides = Field((), description=_LIVE["overrides"].description)
    silences: Silences = Field((), description=_LIVE["silences"].description)
    sinks: Sinks = Field(default_factory=Sinks, description="Slack and Prometheus.")

    @property
    def live(self) -> LiveSettings:
        """The sections that reload without a restart."""
        return LiveSettings(detectors=self.detectors, overrides=self.overrides, silences=self.silences)


SECTIONS = tuple(Settings.model_fields)
RESTART_ONLY = tuple(name for name in SECTIONS if name not in LiveSettings.model_fields)
"""The sections of which a change needs a restart."""


def load(path: Path | None, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file (None: the defaults) and the environment. Raises ConfigError."""
    return validate(read_document(path, SECTIONS) if path else NO_DOCUMENT, environment)


def validate(document: YamlDocument, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a document and the environment. Raises ConfigError with every error, a line each."""
    data = deepcopy(document.data)
    variables = _overlay(data, environment)

    def where(place: Place) -> tuple[int, str]:
        line = document.line(place)
        return line, variables.get(place) or f"{document.name}:{line}"

    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise ConfigError(explain(Settings, error.errors(include_url=False), where, data)) from None


def _overlay(document: dict[str, Any], environment: Mapping[str, str]) -> dict[Place, str]:
    """Writes variables into the document; which variable stands at which place."""
    variables: dict[Place, str] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(_ENVIRONMENT):
            continue
        *sections, key = variable.removeprefix(_ENVIRONMENT).lower().split("__")
        place = document
        for depth, section in enumerate(sections, 1):
            if section not in place:
                variables[*sections[:depth],] = variable
            inner = place.setdefault(section, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{variable}: {section} is not a section")
            place = inner
        try:
            place[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"{variable}: not YAML: {getattr(error, 'problem', None) or error}") from None
        variables[*sections, key] = variable
    return variables
