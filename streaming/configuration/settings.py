"""The configuration file: its sections, how it is read and validated.

The environment (`FLINKWATCH__KAFKA__BOOTSTRAP_SERVERS=…`) overrides the file, and the file overrides the defaults.
Unknown keys are errors. The file contains no secrets; settings name the environment variable or file that holds one.
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
from detectors.settings.live import DetectorSettings, LiveSettings, Overrides, Silences, Windows
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
    # Errors do not show the input: it may be a password that was written in the wrong place.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Kafka(_Section):
    """The brokers, the input topics and flinkwatch's own topics. Changes need a restart."""

    access: KafkaAccess = Field(
        default_factory=lambda: KafkaAccess(bootstrap_servers="localhost:9092"), description="Connection to brokers."
    )
    logs: tuple[str, ...] = Field(("flink.logs",), min_length=1, description="Input topics with log records of Flink.")
    metrics: tuple[str, ...] = Field(("flink.metrics",), description="Input topics with metric records of Flink.")
    topics: TopicNames = Field(default_factory=TopicNames, description="Topics that flinkwatch itself writes.")

    @property
    def for_files(self) -> tuple[str, str]:
        """The topics assigned to the lines of log files and to metrics pages, which name none themselves."""
        return self.logs[0], self.metrics[0] if self.metrics else "metrics"


class Streaming(_Section):
    """The Spark job. Changes need a restart."""

    master: str = Field(
        "local[*]", description="Spark master: local[*] on one host, or a standalone, YARN or Kubernetes master."
    )
    checkpoint: str = Field(
        "/var/lib/flinkwatch/checkpoint",
        description="Checkpoint directory or URI for Spark's state and offsets. It must be persistent and reachable "
        "by all executors.",
    )
    trigger: Duration = Field(
        1_000,
        ge=100,
        description="Time between batches. An incident is reported at most about two triggers after the record that "
        "shows it.",
    )
    buckets: int = Field(
        8,
        ge=1,
        le=1024,
        description="Number of state buckets, fixed at the first start. Each bucket costs about 1 ms per batch; the "
        "default is enough for a few hundred clusters.",
    )
    shuffle_partitions: int = Field(
        2,
        ge=1,
        le=64,
        description="Partitions of the stateful stage, fixed at the first start. Use as many as there are executor "
        "cores.",
    )
    max_offsets_per_trigger: int = Field(
        500_000,
        ge=1,
        description="Maximum number of records in one batch. It bounds the memory needed to catch up after an outage.",
    )
    starting_offsets: Literal["latest", "earliest"] = Field(
        "latest", description="Offsets at which reading of the input topics starts if there is no checkpoint yet."
    )
    heartbeat: bool = Field(
        True,
        description="Whether the job writes a heartbeat record every trigger, which advances the stream's clock while "
        "no input arrives. Disable it only if another process writes the heartbeat.",
    )
    canary: Duration = Field(
        60_000,
        description="Interval of canary records, which pass through the whole pipeline. If no canary returns for three "
        "intervals, /-/ready fails. 0s or heartbeat: false disables canaries.",
    )
    metrics_port: int = Field(
        9109,
        ge=0,
        le=65535,
        description="TCP port of the job's metrics and health page with `run --no-deliver`. Without that option, "
        "sinks.prometheus serves everything. 0 chooses a free port.",
    )
    wait_for_brokers: Duration = Field(
        300_000,
        description="Maximum time that a start waits for the brokers, healthy but not ready, before it exits with the "
        "reason. 0s does not wait.",
    )
    driver_memory: str = Field(
        "768m",
        pattern=r"^\d+[mg]$",
        description="Heap size of the driver's JVM. With local[*] it is the heap of the whole job.",
    )
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="Additional Spark properties, which override flinkwatch's own. Put secrets into "
        "spark-defaults.conf in SPARK_CONF_DIR or into the environment: values set here are visible in the process "
        "list.",
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
                f"{', '.join(secrets)} would be visible in this file and in the process list; "
                f"put it into spark-defaults.conf in SPARK_CONF_DIR or into the environment"
            )
        return value


class OwnIssues(_Section):
    """Known issues of a site. Changes need a restart."""

    files: tuple[str, ...] = Field(
        (),
        description="Files with known issues of your own, such as defects of your connectors, in the format of "
        "conf/known_issues.yaml. An entry with the ID of a shipped one replaces it.",
    )


class Settings(_Section):
    """The whole file."""

    kafka: Kafka = Field(default_factory=Kafka, description="Brokers and topics.")
    streaming: Streaming = Field(default_factory=Streaming, description="The Spark job.")
    identity: Identity = Field(default_factory=Identity, description="How the cluster of a record is determined.")
    detectors: DetectorSettings = Field(default_factory=DetectorSettings, description=_LIVE["detectors"].description)
    overrides: Overrides = Field((), description=_LIVE["overrides"].description)
    silences: Silences = Field((), description=_LIVE["silences"].description)
    maintenance: Windows = Field((), description=_LIVE["maintenance"].description)
    known_issues: OwnIssues = Field(
        default_factory=OwnIssues, description="Known issues that messages name in addition to the shipped ones."
    )
    sinks: Sinks = Field(
        default_factory=Sinks, description="Notifications to Slack and other receivers, and metrics for Prometheus."
    )

    @property
    def live(self) -> LiveSettings:
        """The sections that reload without a restart."""
        return LiveSettings.model_validate({name: getattr(self, name) for name in LiveSettings.model_fields})


SECTIONS = tuple(Settings.model_fields)
RESTART_ONLY = tuple(name for name in SECTIONS if name not in LiveSettings.model_fields)
"""The sections of which a change needs a restart."""


def load(path: Path | None, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file (None: the defaults) and the environment. Raises ConfigError."""
    return validate(read_document(path, SECTIONS) if path else NO_DOCUMENT, environment)


def validate(document: YamlDocument, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a document and the environment. Raises ConfigError with one line for each error."""
    data = deepcopy(document.data)
    variables = _overlay(data, environment)

    def where(place: Place) -> tuple[int, str]:
        line, name = document.where(place)
        return line, variables.get(place) or name

    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise ConfigError(explain(Settings, error.errors(include_url=False), where, data)) from None


def _overlay(document: dict[str, Any], environment: Mapping[str, str]) -> dict[Place, str]:
    """Write the variables into the document; return the variable that set each place."""
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
