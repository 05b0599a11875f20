"""The topics flinkwatch writes: their names, what each must be like, and a check at start that they are so.

A topic with the wrong cleanup policy or retention loses the notification log or the configuration days later, and no
error says so. That is why the check refuses to start.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAlreadyExistsError
from pydantic import BaseModel, ConfigDict, Field

_HOUR_MS = 3_600_000
_FOR_EVER = -1
_LAG = "min.compaction.lag.ms"
_KEEP_CHANGES_MS = 14 * 24 * _HOUR_MS


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
        description="Number of partitions of the topics incidents, deliveries, readings and rejected when flinkwatch "
        "creates them. So many `flinkwatch deliver` processes can share the work. Existing topics keep theirs.",
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
        """Transitions by incident id: the newest one is the state of the incident. Compacted, after 14 days."""
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
        """The notification log, with as many partitions as incidents. Compacted."""
        return f"{self.prefix}.deliveries"

    @property
    def feedback(self) -> str:
        """What people answer to messages: acknowledgements and labels. Compacted, one partition."""
        return f"{self.prefix}.feedback"

    @property
    def heartbeat(self) -> str:
        """Heartbeats, which move the clock when no other record comes. Kept 1 h, one partition."""
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
    compacted_after_ms: int | None = None

    def configs(self) -> dict[str, str]:
        # With "producer" the broker compresses nothing itself, whatever its default is.
        configs: dict[str, str] = {"cleanup.policy": self.policy, "compression.type": "producer"}
        if self.dated_by_broker:
            # Brokers refuse records that a host whose clock is wrong dates an hour ahead.
            configs["message.timestamp.type"] = "LogAppendTime"
        if self.retention_ms is not None:
            configs["retention.ms"] = str(self.retention_ms)
        if self.compacted_after_ms is not None:
            configs[_LAG] = str(self.compacted_after_ms)
        return configs


def wanted_topics(topics: TopicNames, incidents: int | None = None) -> tuple[Topic, ...]:
    """Every topic flinkwatch writes. deliveries gets as many partitions as `incidents` has, if that exists."""
    return (
        Topic(topics.incidents, topics.partitions, "compact", compacted_after_ms=_KEEP_CHANGES_MS),
        Topic(topics.readings, topics.partitions, "compact"),
        Topic(topics.rejected, topics.partitions, "delete", 7 * 24 * _HOUR_MS),
        Topic(topics.config, 1, "delete", _FOR_EVER),
        Topic(topics.deliveries, incidents or topics.partitions, "compact"),
        Topic(topics.feedback, 1, "compact"),
        Topic(topics.heartbeat, 1, "delete", _HOUR_MS, dated_by_broker=False),
    )


def ensure_topics(admin: Any, topics: TopicNames, create: bool) -> None:
    """Creates what is missing when `create`, then checks every topic.

    `admin` is kafka-python's KafkaAdminClient. Raises TopicsError with everything that is wrong and the commands
    that fix it, and kafka.errors.KafkaError when the broker refuses or does not answer.
    """
    counts = _partition_counts(admin, topics)
    wanted = wanted_topics(topics, counts.get(topics.incidents))
    missing = [topic for topic in wanted if topic.name not in counts]
    if missing and create:
        fields = {"replication_factor": topics.replication_factor}
        create_missing(
            admin, {t.name: {"num_partitions": t.partitions, "configs": t.configs(), **fields} for t in missing}
        )
        missing, counts = [], _partition_counts(admin, topics)
    present = [topic for topic in wanted if topic not in missing]
    problems = [_missing_problem(admin, topic, topics.replication_factor) for topic in missing]
    problems += _policy_problems(admin, present)
    problems += _partition_problems(admin, topics, counts)
    if problems:
        raise TopicsError("Kafka topics are not as flinkwatch needs them:\n" + "\n".join(problems))


def topic_hints(admin: Any, topics: TopicNames) -> list[str]:
    """What would be better about topics that exist, each with the command for it; nothing that must be so.

    Raises kafka.errors.KafkaError.
    """
    found = settings_of(admin, {topics.incidents: [_LAG]})[topics.incidents][_LAG]
    if found is None or int(found) >= _KEEP_CHANGES_MS:
        return []
    command = _alter(admin, topics.incidents, {_LAG: str(_KEEP_CHANGES_MS)})
    hint = (
        f"{topics.incidents}: {_LAG} is {found}; with {_KEEP_CHANGES_MS} the status site and `flinkwatch report` show "
        f"every change of the last 14 days, not only the newest one of each incident\n  {command}"
    )
    return [hint]


def _alter(admin: Any, topic: str, configs: Mapping[str, str]) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {_bootstrap(admin)} --entity-type topics "
        f"--entity-name {topic} --alter --add-config {','.join(f'{k}={v}' for k, v in configs.items())}"
    )


def _partition_counts(admin: Any, topics: TopicNames) -> dict[str, int]:
    """Of those that exist. One listing first: asking for a missing topic may create it."""
    known = set(admin.list_topics())
    present = [topic.name for topic in wanted_topics(topics) if topic.name in known]
    return {t["name"]: len(t["partitions"]) for t in admin.describe_topics(present)} if present else {}


def create_missing(admin: Any, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Creates the topics that do not exist, and waits until all do. `wanted` has kafka-python's fields by name."""
    for name, fields in wanted.items():
        try:
            admin.create_topics({name: {"configs": {}, **fields}})
        except TopicAlreadyExistsError:
            # Another process may create it at the same time.
            continue
    admin.wait_for_topics(list(wanted))


def settings_of(admin: Any, wanted: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str | None]]:
    """Settings of topics, by topic and name; None for one that the broker does not give."""
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic, list(names)) for topic, names in wanted.items()]
    found = admin.describe_configs(asked, config_filter="all")["topic"] if asked else {}
    return {t: {name: found.get(t, {}).get(name, {}).get("value") for name in names} for t, names in wanted.items()}


def _policy_problems(admin: Any, present: list[Topic]) -> list[str]:
    # Records that are to be kept for ever must be; how long the others are kept is up to the brokers' administrators.
    wanted = {
        topic.name: {k: v for k, v in topic.configs().items() if k == "cleanup.policy" or v == str(_FOR_EVER)}
        for topic in present
    }
    problems = []
    for name, found in settings_of(admin, wanted).items():
        if wrong := {key: value for key, value in wanted[name].items() if found[key] != value}:
            differs = ", ".join(f"{key} is {found[key]}, must be {value}" for key, value in wrong.items())
            problems.append(f"{name}: {differs}\n  {_alter(admin, name, wrong)}")
    return problems


def _partition_problems(admin: Any, topics: TopicNames, counts: dict[str, int]) -> list[str]:
    problems = []
    wanted, found = counts.get(topics.incidents), counts.get(topics.deliveries)
    if wanted and found and wanted != found:
        grown, other = sorted((topics.incidents, topics.deliveries), key=counts.__getitem__)
        problems.append(
            f"{topics.deliveries}: has {found} partitions, {topics.incidents} has {wanted}: must be equal\n"
            f"  kafka-topics.sh --bootstrap-server {_bootstrap(admin)} --alter --topic {grown} "
            f"--partitions {counts[other]}"
        )
    return problems + [
        f"{name}: has {counts[name]} partitions, must have 1\n"
        f"  kafka-topics.sh --bootstrap-server {_bootstrap(admin)} --delete --topic {name}   # then start again"
        for name in (topics.config, topics.feedback, topics.heartbeat)
        if counts.get(name, 1) != 1
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
