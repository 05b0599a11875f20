"""The status site of `flinkwatch deliver` on a real broker: what it shows, its link in Slack, what it leaves."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from detectors.incident import Reading
from detectors.settings.live import CONFIG_KEY, LiveSettings, encode_published, publish
from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.topics import TopicNames, ensure_topics, settings_of
from tests.e2e.deliverer import DelivererProcess
from tests.embedded.broker import Broker
from tests.fake_slack.server import SlackServer
from tests.unit.sinks.samples import make_transition

pytestmark = pytest.mark.e2e

TOPICS = TopicNames(prefix="site", partitions=2)
OUTSIDE = "https://ops.example.org/flinkwatch"


class Deliverer(DelivererProcess):
    """With a token on its site."""

    def __init__(self, bootstrap: str, folder: Path, slack: SlackServer) -> None:
        token = folder / "token"
        token.write_text("t0ken")
        sinks: dict[str, Any] = {
            "slack": {"enabled": True, "channel": "flink-alerts", "base_url": slack.base_url},
            "web": {"external_url": OUTSIDE, "token_file": str(token)},
        }
        super().__init__(bootstrap, folder, TOPICS.prefix, sinks)

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        return super().get(path, **{"Authorization": "Bearer t0ken"} | headers)

    def json(self, path: str) -> Any:
        return msgspec.json.decode(self.get(f"/api/v1{path}")[1])


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    made = SlackServer()
    yield made
    made.close()


@pytest.fixture
def deliverer(broker: Broker, tmp_path: Path, slack: SlackServer) -> Iterator[Deliverer]:
    """Runs on topics with one incident of two changes, a reading and a configuration."""
    access = KafkaAccess(bootstrap_servers=broker.bootstrap)
    with closing(KafkaAdminClient(**client_options(access))) as admin:
        ensure_topics(admin, TOPICS, create=True)
        assert settings_of(admin, {TOPICS.incidents: ["min.compaction.lag.ms"]}) == {
            TOPICS.incidents: {"min.compaction.lag.ms": "1209600000"}
        }
    made = Deliverer(broker.bootstrap, tmp_path, slack)
    with closing(KafkaProducer(**client_options(access))) as producer:
        published = publish(LiveSettings(), 1_772_000_000_000, "ann")
        producer.send(TOPICS.config, key=CONFIG_KEY, value=encode_published(published))
        reading = Reading(name="gc_time_ratio", labels={"cluster": "prod-eu", "tm": "t"}, value=0.4, at=1)
        producer.send(TOPICS.readings, key=reading.key().encode(), value=msgspec.json.encode(reading))
        now = int(time.time() * 1000)
        for seq in (1, 2):
            one = make_transition(incident="i", seq=seq, at=now, opened_at=now, config=published.hash)
            producer.send(TOPICS.incidents, key=b"i", value=msgspec.json.encode(one))
        producer.flush(timeout=60)
    yield made
    made.end()


def test_the_site_shows_what_the_topics_have_and_leaves_nothing(deliverer: Deliverer, slack: SlackServer) -> None:
    deliverer.eventually(lambda: deliverer.get("/api/v1/incidents/i")[0] == 200)
    deliverer.eventually(
        lambda: (
            [(one["receiver"], one["state"]) for one in deliverer.json("/incidents/i")["notifications"]]
            == [("slack", "sent")]
        )
    )
    document = deliverer.json("/incidents/i")
    assert [one["seq"] for one in document["transitions"]] == [2, 1]
    assert document["complete"]
    assert "checkpoint_overdue.factor" in [one["key"] for one in document["thresholds"]]
    assert deliverer.json("/incidents")["total"] == deliverer.json("/history")["total"] == 1
    assert deliverer.json("/config")["by"] == "ann"
    deliverer.eventually(lambda: "gc_time_ratio" in str(deliverer.json("/clusters/prod-eu")))
    assert deliverer.json("/receivers")["receivers"][0]["receiver"] == "slack"
    for path in ("/", "/incidents/i", "/history", "/clusters", "/clusters/prod-eu", "/config", "/receivers"):
        status, body = deliverer.get(path)
        assert (status, b"<h1" in body) == (200, True), path
        assert deliverer.get(path, Authorization="")[0] == 401
        assert deliverer.get(path, Host="evil.example")[0] == 421
    assert deliverer.get("/metrics", Authorization="")[0] == 200

    (message,) = slack.parents()
    assert f"{OUTSIDE}/incidents/i" in msgspec.json.encode(message.blocks).decode()

    assert [folder.name[:16] for folder in deliverer.temporary.iterdir()] == ["flinkwatch-site-"]
    deliverer.process.send_signal(signal.SIGTERM)
    assert deliverer.process.wait(60) == 0
    assert list(deliverer.temporary.iterdir()) == []
