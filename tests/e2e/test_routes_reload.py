"""Routes that change while `flinkwatch deliver` runs, on a real broker: who is notified, and what is refused."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.topics import TopicNames, ensure_topics
from tests.e2e.deliverer import DelivererProcess
from tests.embedded.broker import Broker
from tests.fake_slack.server import SlackServer
from tests.unit.sinks.samples import make_transition

pytestmark = pytest.mark.e2e

TOPICS = TopicNames(prefix="routed", partitions=2)


class Routed:
    """A deliverer with one Slack channel, and topics to which incidents are written."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.slack = SlackServer(channels=("flink-alerts", "oncall"))
        self._options = client_options(KafkaAccess(bootstrap_servers=broker.bootstrap))
        with closing(KafkaAdminClient(**self._options)) as admin:
            ensure_topics(admin, TOPICS, create=True)
        self.deliverer = DelivererProcess(broker.bootstrap, folder, TOPICS.prefix, self._sinks("slack"))

    def _sinks(self, to: str) -> dict[str, Any]:
        slack = {"enabled": True, "channel": "flink-alerts", "base_url": self.slack.base_url, "charts": False}
        return {"slack": slack, "routing": {"routes": [{"to": [to]}], "default": []}}

    def route(self, to: str) -> None:
        self.deliverer.configure(self._sinks(to))

    def write(self, incident: str, seq: int, transition: str) -> None:
        now = int(time.time() * 1000)
        one = make_transition(incident=incident, seq=seq, transition=transition, at=now, opened_at=now)
        with closing(KafkaProducer(**self._options)) as producer:
            producer.send(TOPICS.incidents, key=incident.encode(), value=msgspec.json.encode(one))

    def shown(self) -> set[tuple[str, str, int]]:
        """Channel, incident and number of the newest change of each message; without digests."""
        posted = [(one, one.metadata["event_payload"]) for one in self.slack.parents()]
        found = {(one.channel, payload["incident"], payload["seq"]) for one, payload in posted}
        return {one for one in found if not one[1].startswith("~")}

    def digests(self, channel: str) -> int:
        """The number of digests in a channel."""
        posted = [one for one in self.slack.parents() if one.channel == self.slack.channel_id(channel)]
        return sum(one.metadata["event_payload"]["incident"].startswith("~") for one in posted)

    def shows(self, *messages: tuple[str, str, int]) -> None:
        wanted = {(self.slack.channel_id(channel), incident, seq) for channel, incident, seq in messages}
        self.deliverer.eventually(lambda: self.shown() == wanted)

    def metric(self, name: str) -> str:
        lines = self.deliverer.get("/metrics")[1].decode().splitlines()
        return next((line.rpartition(" ")[2] for line in lines if line.startswith(f"flinkwatch_{name}")), "")

    def hash_of_routes(self) -> str:
        lines = self.deliverer.get("/metrics")[1].decode().splitlines()
        return next((line for line in lines if line.startswith("flinkwatch_routing_info")), "")


@pytest.fixture
def routed(broker: Broker, tmp_path: Path) -> Iterator[Routed]:
    made = Routed(broker, tmp_path)
    yield made
    made.deliverer.end()
    made.slack.close()


def test_an_incident_ends_where_it_was_announced_and_the_next_one_follows_the_new_routes(routed: Routed) -> None:
    routed.write("before", 1, "opened")
    routed.shows(("flink-alerts", "before", 1))
    routed.deliverer.eventually(lambda: routed.hash_of_routes() != "")
    first = routed.hash_of_routes()

    routed.route("webhook")
    routed.deliverer.eventually(lambda: routed.metric("config_last_reload_successful") == "0.0")
    assert routed.hash_of_routes() == first
    assert "routing names 'webhook', which is not an enabled receiver" in routed.deliverer.log.read_text()

    routed.route("slack:oncall")
    routed.deliverer.eventually(lambda: routed.hash_of_routes() not in {"", first})
    assert routed.metric("config_last_reload_successful") == "1.0"
    # What is open before the channel's notification log begins comes in a digest.
    routed.deliverer.eventually(lambda: routed.digests("oncall") == 1)
    routed.write("after", 1, "opened")
    routed.write("before", 2, "resolved")
    routed.shows(("flink-alerts", "before", 2), ("oncall", "after", 1))
    routed.deliverer.process.send_signal(signal.SIGTERM)
    assert routed.deliverer.process.wait(60) == 0
