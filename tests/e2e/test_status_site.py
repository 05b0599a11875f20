"""The status site of `flinkwatch deliver` on a real broker: what it shows, its link in Slack, what it leaves."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from kafka import KafkaAdminClient, KafkaProducer

from detectors.incident import Reading
from detectors.settings.live import CONFIG_KEY, LiveSettings, encode_published, publish
from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.topics import TopicNames, ensure_topics, settings_of
from tests.embedded.broker import DIE_WITH_PARENT, Broker
from tests.embedded.job_process import free_port
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.samples import make_transition

pytestmark = pytest.mark.e2e

TOPICS = TopicNames(prefix="site", partitions=2)
OUTSIDE = "https://ops.example.org/flinkwatch"


class Deliverer:
    """`flinkwatch deliver` as a process of its own, with a token on its site."""

    def __init__(self, bootstrap: str, folder: Path, slack: SlackServer) -> None:
        self.port = free_port()
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        token, config = folder / "token", folder / "flinkwatch.yaml"
        token.write_text("t0ken")
        sinks: dict[str, Any] = {
            "slack": {"enabled": True, "channel": "flink-alerts", "base_url": slack.base_url},
            "prometheus": {"address": "127.0.0.1", "port": self.port},
            "web": {"external_url": OUTSIDE, "token_file": str(token)},
        }
        kafka = {"access": {"bootstrap_servers": bootstrap}, "topics": {"prefix": TOPICS.prefix}}
        config.write_text(yaml.safe_dump({"kafka": kafka, "streaming": {"heartbeat": False}, "sinks": sinks}))
        environment = os.environ | {"SLACK_BOT_TOKEN": TOKEN, "TMPDIR": str(self.temporary)}
        command = [sys.executable, "-m", "streaming", "deliver", "--config", str(config)]
        self.log = folder / "deliver.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid()), *command],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=Path(__file__).parents[2],
            )

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        given = {"Authorization": "Bearer t0ken"} | headers
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=given)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError:
            return 0, b""

    def json(self, path: str) -> Any:
        return msgspec.json.decode(self.get(f"/api/v1{path}")[1])

    def eventually(self, met: Callable[[], bool], within: float = 300.0) -> None:
        deadline = time.monotonic() + within
        while not met():
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            time.sleep(0.1)


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
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait(30)


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
