"""A deliverer with buttons, Kafka in memory and the fake Slack with its sockets."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from detectors.incident import Transition
from detectors.incidents.silences import Silence
from detectors.settings.live import SILENCE_KEY, read_silence
from sinks.contract.feedback import Feedback, decode_feedback
from sinks.delivery.service import Delivery
from sinks.integrations.slack.actions.settings import SlackActionsConfig
from sinks.integrations.slack.settings import SlackConfig
from sinks.kafka.access import KafkaAccess
from sinks.prometheus.http_server import PrometheusConfig
from sinks.settings import Sinks
from tests.fake_slack.server import SlackServer
from tests.unit.sinks.memory_kafka import TOPICS, MemoryKafka

NOW = int(time.time() * 1000)


class PatientKafka(MemoryKafka):
    """Its consumers pause between polls, as those of a broker do, and leave the processor to others."""

    def group_consumer(self, receiver: str) -> Any:
        return _patient(super().group_consumer(receiver))

    def board_consumer(self) -> Any:
        return _patient(super().board_consumer())


def _patient(consumer: Any) -> Any:
    poll = consumer.poll

    def later(*args: Any, **options: Any) -> Any:
        time.sleep(0.01)
        return poll(*args, **options)

    consumer.poll = later
    return consumer


class ActionsWorld:
    """One deliverer with its threads."""

    def __init__(self, slack: SlackServer, kafka: MemoryKafka | None = None, **actions: Any) -> None:
        self.slack, self.kafka = slack, PatientKafka() if kafka is None else kafka
        config = SlackConfig(
            enabled=True,
            channel=slack.channel_id("flink-alerts"),
            base_url=slack.base_url,
            thread_updates=False,
            actions=SlackActionsConfig(**{"enabled": True, "allowed": ("*",), **actions}),
        )
        sinks = Sinks(slack=config, prometheus=PrometheusConfig(enabled=False))
        self.delivery = Delivery(KafkaAccess(bootstrap_servers="127.0.0.1:1"), TOPICS, sinks, clients=self.kafka)  # type: ignore[arg-type]

    def say(self, *transitions: Transition) -> None:
        for one in transitions:
            self.kafka.write(TOPICS.incidents, one.incident, msgspec.json.encode(one))

    def opened(self, transition: Transition) -> str:
        """The `ts` of the message of an incident that opens."""
        self.say(transition)
        wait_until(lambda: transition.incident in self.delivery.board.open_incidents(), "the collector knows it")
        wait_until(lambda: transition.incident in self._messages(), "a message")
        return self._messages()[transition.incident]

    def _messages(self) -> dict[str, str]:
        return {one.metadata["event_payload"]["incident"]: one.ts for one in self.slack.parents()}

    def feedback(self) -> list[Feedback]:
        """The records of the topic, oldest first."""
        return [decode_feedback(kept.value) for kept in self._records(TOPICS.feedback)]

    def silences(self) -> list[Silence]:
        """The silences of the configuration topic, oldest first."""
        records = self._records(TOPICS.config)
        return [read_silence(kept.value).read() for kept in records if kept.key.startswith(SILENCE_KEY)]

    def counted(self, action: str, result: str) -> float:
        """How many actions had this result."""
        labels = {"action": action, "result": result}
        found = (s for metric in self.delivery.board.delivery.actions.collect() for s in metric.samples)
        return next((s.value for s in found if s.labels == labels and s.name.endswith("_total")), 0.0)

    def _records(self, topic: str) -> list[Any]:
        return [kept for partition, log in list(self.kafka.logs.items()) if partition.topic == topic for kept in log]


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.01)
