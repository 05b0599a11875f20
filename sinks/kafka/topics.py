"""The topics flinkwatch writes: their names, what each must be like, and a check at start that they are so.

A topic with the wrong cleanup policy or retention loses the ledger or the configuration silently, days later: therefore
the check refuses to start.
"""

from typing import Any, Literal, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAlreadyExistsError
from pydantic import BaseModel, ConfigDict, Field

from sinks.kafka.codecs import codec_problems

_HOUR_MS = 3_600_000
_FOR_EVER = -1


class TopicNames(BaseModel):
    """Names of flinkwatch's own topics, and how missing ones are made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = Field(
        default="flinkwatch",
        pattern=r"^[a-zA-Z0-9._-]{1,100}$",
        description="First part of every topic's name; another one for each installation that shares a Kafka cluster.",
    )
    partitions: int = Field(
        default=4,
        ge=1,
        description="Partitions of a new incidents, deliveries, readings or rejected topic: as many deliverers can "
        "share the work. Existing topics keep theirs.",
    )
    replication_factor: int = Field(
        default=-1, ge=-1, description="Copies of a new topic; -1 takes the broker's default.replication.factor."
    )
    create: bool = Field(
        default=True,
        description="Create missing topics at start; off where only administrators may, and then start-up prints "
        "the commands.",
    )

    @property
    def incidents(self) -> str:
        """Transitions by incident id: the incident as it stands. Compacted."""
        return f"{self.prefix}.incidents"

    @property
    def readings(self) -> str:
        """Readings by their key. Compacted."""
        return f"{self.prefix}.readings"

    @property
    def rejected(self) -> str:
        """Dead letters with their reason. Kept 7 days."""
        return f"{self.prefix}.rejected"

    @property
    def config(self) -> str:
        """Every configuration and silence there was. Kept for ever, one partition so that changes are in order."""
        return f"{self.prefix}.config"

    @property
    def deliveries(self) -> str:
        """The delivery ledger, partitioned as incidents. Compacted."""
        return f"{self.prefix}.deliveries"

    @property
    def heartbeat(self) -> str:
        """A beat that moves the clock when nothing else does. Kept 1 h, one partition."""
        return f"{self.prefix}.heartbeat"


class TopicsError(Exception):
    """Topics are missing or made wrongly; the text lists them with the commands that help. Not worth a retry."""


class Topic(NamedTuple):
    """What one topic must be like. `partitions` counts only when it is made."""

    name: str
    partitions: int
    policy: Literal["compact", "delete"]
    retention_ms: int | None = None
    dated_by_broker: bool = True

    def configs(self) -> dict[str, str]:
        """The topic's settings as the broker takes them."""
        # With "producer" the broker compresses nothing itself, whatever its default is.
        configs: dict[str, str] = {"cleanup.policy": self.policy, "compression.type": "producer"}
        if self.dated_by_broker:
            # Brokers refuse records that a host whose clock is wrong dates an hour ahead.
            configs["message.timestamp.type"] = "LogAppendTime"
        if self.retention_ms is not None:
            configs["retention.ms"] = str(self.retention_ms)
        return configs


def wanted_topics(topics: TopicNames) -> tuple[Topic, ...]:
    """Every topic flinkwatch writes. incidents comes before deliveries, which takes over its partitions."""
    return (
        Topic(topics.incidents, topics.partitions, "compact"),
        Topic(topics.readings, topics.partitions, "compact"),
        Topic(topics.rejected, topics.partitions, "delete", 7 * 24 * _HOUR_MS),
        Topic(topics.config, 1, "delete", _FOR_EVER),
        Topic(topics.deliveries, topics.partitions, "compact"),
        Topic(topics.heartbeat, 1, "delete", _HOUR_MS, dated_by_broker=False),
    )


def ensure_topics(admin: Any, topics: TopicNames, create: bool) -> None:
    """Creates what is missing when `create`, then checks every topic.

    `admin` is kafka-python's KafkaAdminClient. Raises TopicsError with everything that is wrong and the commands
    that mend it, and kafka.errors.KafkaError when the broker refuses or does not answer.
    """
    wanted = _as_partitioned_now(admin, topics)
    missing = _missing(admin, wanted)
    if missing and create:
        _create(admin, missing, topics.replication_factor)
        missing = []
    present = [topic for topic in wanted if topic not in missing]
    problems = [_missing_problem(admin, topic, topics.replication_factor) for topic in missing]
    problems += _policy_problems(admin, present)
    problems += codec_problems(admin, [topic.name for topic in present])
    problems += _partition_problems(admin, topics, {topic.name for topic in present})
    if problems:
        raise TopicsError("Kafka topics are not as flinkwatch needs them:\n" + "\n".join(problems))


def _partition_counts(admin: Any, names: list[str]) -> dict[str, int]:
    # One listing instead of describe_topics(names): asking for a missing topic may create it.
    known = set(admin.list_topics())
    present = [name for name in names if name in known]
    if not present:
        return {}
    return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics(present)}


def _as_partitioned_now(admin: Any, topics: TopicNames) -> tuple[Topic, ...]:
    """The wanted topics, deliveries with as many partitions as an existing incidents has."""
    counts = _partition_counts(admin, [topics.incidents])
    partitions = counts.get(topics.incidents, topics.partitions)
    return tuple(
        topic._replace(partitions=partitions) if topic.name == topics.deliveries else topic
        for topic in wanted_topics(topics)
    )


def _missing(admin: Any, wanted: tuple[Topic, ...]) -> list[Topic]:
    known = set(admin.list_topics())
    return [topic for topic in wanted if topic.name not in known]


def _create(admin: Any, missing: list[Topic], replication_factor: int) -> None:
    for topic in missing:
        request = {
            topic.name: {
                "num_partitions": topic.partitions,
                "replication_factor": replication_factor,
                "configs": topic.configs(),
            }
        }
        try:
            admin.create_topics(request)
        except TopicAlreadyExistsError:
            # Another instance starts at the same time; the checks that follow look at what it made.
            continue
    admin.wait_for_topics([topic.name for topic in missing])


def _policy_problems(admin: Any, present: list[Topic]) -> list[str]:
    if not present:
        return []
    # What is to be kept for ever must be; for how long the others are is up to whoever runs the brokers.
    wanted = [
        (topic, {k: v for k, v in topic.configs().items() if k == "cleanup.policy" or v == str(_FOR_EVER)})
        for topic in present
    ]
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic.name, list(configs)) for topic, configs in wanted]
    found = admin.describe_configs(asked, config_filter="all")["topic"]
    problems = []
    for topic, configs in wanted:
        are = {key: found.get(topic.name, {}).get(key, {}).get("value") for key in configs}
        if wrong := {key: value for key, value in configs.items() if are[key] != value}:
            command = (
                f"kafka-configs.sh --bootstrap-server {_bootstrap(admin)} --entity-type topics "
                f"--entity-name {topic.name} --alter --add-config {','.join(f'{k}={v}' for k, v in wrong.items())}"
            )
            said = ", ".join(f"{key} is {are[key]}, must be {value}" for key, value in wrong.items())
            problems.append(f"{topic.name}: {said}\n  {command}")
    return problems


def _partition_problems(admin: Any, topics: TopicNames, present: set[str]) -> list[str]:
    counts = _partition_counts(admin, [topics.incidents, topics.deliveries, topics.config, topics.heartbeat])
    problems = []
    if {topics.incidents, topics.deliveries} <= present:
        wanted, found = counts[topics.incidents], counts[topics.deliveries]
        if wanted != found:
            grown, other = sorted((topics.incidents, topics.deliveries), key=counts.__getitem__)
            problems.append(
                f"{topics.deliveries}: has {found} partitions, {topics.incidents} has {wanted}: must be equal\n"
                f"  kafka-topics.sh --bootstrap-server {_bootstrap(admin)} --alter --topic {grown} "
                f"--partitions {counts[other]}"
            )
    return problems + [
        f"{name}: has {counts[name]} partitions, must have 1\n"
        f"  kafka-topics.sh --bootstrap-server {_bootstrap(admin)} --delete --topic {name}   # then start again"
        for name in (topics.config, topics.heartbeat)
        if name in present and counts[name] != 1
    ]


def _missing_problem(admin: Any, topic: Topic, replication_factor: int) -> str:
    configs = " ".join(f"--config {name}={value}" for name, value in topic.configs().items())
    replicas = f"--replication-factor {replication_factor} " if replication_factor > 0 else ""
    return (
        f"{topic.name}: is missing\n"
        f"  kafka-topics.sh --bootstrap-server {_bootstrap(admin)} --create --topic {topic.name} "
        f"--partitions {topic.partitions} {replicas}{configs}"
    )


def _bootstrap(admin: Any) -> str:
    servers = admin.config["bootstrap_servers"]
    return servers if isinstance(servers, str) else ",".join(servers)
