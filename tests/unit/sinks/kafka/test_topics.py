"""flinkwatch's own topics: made as they must be, or said how to make them."""

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from sinks.kafka.topics import TopicNames, TopicsError, ensure_topics, topic_hints, wanted_topics

NAMES = TopicNames()


class MemoryAdmin:
    """A KafkaAdminClient over a dict of topics: name → (partitions, configs)."""

    def __init__(self, **topics: tuple[int, str]) -> None:
        self.config = {"bootstrap_servers": ["a:9092", "b:9092"]}
        self.topics = {
            f"flinkwatch.{name}": (count, {"cleanup.policy": policy}) for name, (count, policy) in topics.items()
        }
        if "config" in topics:
            self.topics["flinkwatch.config"][1]["retention.ms"] = "-1"

    def list_topics(self) -> list[str]:
        return [*self.topics, "flink.logs"]

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return [{"name": name, "partitions": [{}] * self.topics[name][0]} for name in names]

    def describe_configs(self, resources: list[Any], config_filter: str) -> dict[str, Any]:
        assert config_filter == "all"
        named = ((resource.name, self.topics[resource.name][1]) for resource in resources)
        return {"topic": {name: {key: {"value": value} for key, value in configs.items()} for name, configs in named}}

    def create_topics(self, topics: dict[str, dict[str, Any]]) -> None:
        for name, options in topics.items():
            self.topics[name] = (options["num_partitions"], options["configs"])

    def wait_for_topics(self, names: list[str]) -> None:
        assert set(names) <= set(self.topics)


def right() -> dict[str, tuple[int, str]]:
    return {name.name.removeprefix("flinkwatch."): (name.partitions, name.policy) for name in wanted_topics(NAMES)}


DATED = {"message.timestamp.type": "LogAppendTime"}


def test_missing_topics_are_made_with_their_policies() -> None:
    admin = MemoryAdmin()
    ensure_topics(admin, NAMES, create=True)
    made = {name: (count, configs) for name, (count, configs) in admin.topics.items()}
    assert made == {
        # The stream's clock runs on the time that a beat was given.
        name: (count, configs | {"compression.type": "producer"} | ({} if name == "flinkwatch.heartbeat" else DATED))
        for name, (count, configs) in {
            "flinkwatch.incidents": (4, {"cleanup.policy": "compact", "min.compaction.lag.ms": "1209600000"}),
            "flinkwatch.readings": (4, {"cleanup.policy": "compact"}),
            "flinkwatch.rejected": (4, {"cleanup.policy": "delete", "retention.ms": "604800000"}),
            "flinkwatch.config": (1, {"cleanup.policy": "delete", "retention.ms": "-1"}),
            "flinkwatch.deliveries": (4, {"cleanup.policy": "compact"}),
            "flinkwatch.feedback": (1, {"cleanup.policy": "compact"}),
            "flinkwatch.heartbeat": (1, {"cleanup.policy": "delete", "retention.ms": "3600000"}),
        }.items()
    }
    ensure_topics(admin, NAMES, create=False)


@pytest.mark.parametrize(("lag", "hints"), [("0", 1), ("1209599999", 1), ("1209600000", 0), ("9223372036854775807", 0)])
def test_an_older_topic_that_is_compacted_at_once_gets_a_hint_with_the_command(lag: str, hints: int) -> None:
    admin = MemoryAdmin(**right())
    admin.topics["flinkwatch.incidents"][1]["min.compaction.lag.ms"] = lag
    ensure_topics(admin, NAMES, create=True)
    found = topic_hints(admin, NAMES)
    assert len(found) == hints
    for hint in found:
        assert f"min.compaction.lag.ms is {lag};" in hint
        assert hint.endswith(
            "kafka-configs.sh --bootstrap-server a:9092,b:9092 --entity-type topics --entity-name flinkwatch.incidents "
            "--alter --add-config min.compaction.lag.ms=1209600000"
        )


def test_a_broker_that_does_not_give_the_setting_gets_no_hint() -> None:
    assert topic_hints(MemoryAdmin(**right()), NAMES) == []


def test_a_new_ledger_takes_the_partitions_of_existing_incidents() -> None:
    admin = MemoryAdmin(incidents=(7, "compact"))
    ensure_topics(admin, NAMES, create=True)
    assert admin.topics["flinkwatch.deliveries"][0] == 7


def test_where_topics_may_not_be_made_the_error_gives_the_commands() -> None:
    topics = right()
    del topics["readings"], topics["heartbeat"]
    with pytest.raises(TopicsError) as caught:
        ensure_topics(MemoryAdmin(**topics), NAMES, create=False)
    make = "  kafka-topics.sh --bootstrap-server a:9092,b:9092 --create --topic"
    raw = "--config compression.type=producer"
    deleted = f"--config cleanup.policy=delete {raw}"
    dated = f"{raw} --config message.timestamp.type=LogAppendTime"
    assert str(caught.value).splitlines() == [
        "Kafka topics are not as flinkwatch needs them:",
        "flinkwatch.readings: is missing",
        f"{make} flinkwatch.readings --partitions 4 --config cleanup.policy=compact {dated}",
        "flinkwatch.heartbeat: is missing",
        f"{make} flinkwatch.heartbeat --partitions 1 {deleted} --config retention.ms=3600000",
    ]


def test_a_wrong_cleanup_policy_is_refused_also_when_topics_may_be_made() -> None:
    with pytest.raises(TopicsError, match=r"deliveries: cleanup.policy is delete, must be compact\n  kafka-configs.sh"):
        ensure_topics(MemoryAdmin(**right() | {"deliveries": (4, "delete")}), NAMES, create=True)


@pytest.mark.parametrize(
    ("configs", "problem"),
    [
        ({"cleanup.policy": "compact", "retention.ms": "-1"}, "cleanup.policy is compact, must be delete"),
        ({"cleanup.policy": "delete", "retention.ms": "604800000"}, "retention.ms is 604800000, must be -1"),
    ],
)
def test_a_configuration_that_would_be_forgotten_is_refused(configs: dict[str, str], problem: str) -> None:
    """With Kafka's usual retention of a week the job would be at its defaults after a loss of the checkpoint."""
    admin = MemoryAdmin()
    ensure_topics(admin, NAMES, create=True)
    admin.topics["flinkwatch.config"] = (1, configs)
    with pytest.raises(TopicsError, match=rf"flinkwatch\.config: {problem}\n  kafka-configs.sh .* --add-config"):
        ensure_topics(admin, NAMES, create=True)


@pytest.mark.parametrize(
    ("changes", "grown"),
    [
        ({"deliveries": (2, "compact")}, "flinkwatch.deliveries"),
        ({"incidents": (3, "compact")}, "flinkwatch.incidents"),
    ],
)
def test_a_ledger_that_is_partitioned_differently_is_refused(changes: dict[str, tuple[int, str]], grown: str) -> None:
    with pytest.raises(TopicsError, match=f"must be equal\n.*--alter --topic {grown} --partitions 4"):
        ensure_topics(MemoryAdmin(**right() | changes), NAMES, create=True)


def test_the_configuration_must_be_in_one_partition() -> None:
    with pytest.raises(TopicsError, match=r"flinkwatch\.config: has 3 partitions, must have 1"):
        ensure_topics(MemoryAdmin(**right() | {"config": (3, "delete")}), NAMES, create=True)


def test_somebody_else_making_a_topic_at_the_same_time_is_no_error() -> None:
    from kafka.errors import TopicAlreadyExistsError

    admin = MemoryAdmin()
    make = admin.create_topics

    def lose_the_race(topics: dict[str, dict[str, Any]]) -> None:
        make(topics)
        raise TopicAlreadyExistsError

    racing: Any = SimpleNamespace(
        config=admin.config,
        list_topics=admin.list_topics,
        describe_topics=admin.describe_topics,
        describe_configs=admin.describe_configs,
        create_topics=lose_the_race,
        wait_for_topics=admin.wait_for_topics,
    )
    ensure_topics(racing, NAMES, create=True)


def test_the_prefix_names_all_topics() -> None:
    assert {topic.name for topic in wanted_topics(TopicNames(prefix="team.fw"))} == {
        f"team.fw.{name}"
        for name in ("incidents", "readings", "rejected", "config", "deliveries", "feedback", "heartbeat")
    }
    with pytest.raises(ValidationError):
        TopicNames(prefix="not allowed")
