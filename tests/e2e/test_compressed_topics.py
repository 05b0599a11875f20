"""Every codec of Kafka on a real broker: where topics are compressed, everything that reads them works."""

import gzip
import itertools
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaProducer

from detectors.events.event import Record
from detectors.settings.live import LiveSettings, publish
from sinks.delivery.service import Delivery
from sinks.integrations.slack.settings import SlackConfig
from sinks.kafka.access import KafkaAccess
from sinks.kafka.topics import TopicNames, wanted_topics
from sinks.prometheus.http_server import PrometheusConfig
from sinks.settings import Sinks
from streaming.cli.main import cli
from streaming.configuration.topic import ConfigTopic
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.embedded.job_process import JobProcess
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.samples import make_transition

pytestmark = pytest.mark.e2e

CODECS = ("gzip", "snappy", "lz4", "zstd")
_numbers = itertools.count(1)


def create(bootstrap: str, codec: str, names: TopicNames, logs: str) -> None:
    """All topics of an installation, compressed by the broker, as with `compression.type` in its own configuration."""
    own = {t.name: (t.partitions, t.configs() | {"compression.type": codec}) for t in wanted_topics(names)}
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        for name, (partitions, configs) in {**own, logs: (1, {"compression.type": codec})}.items():
            admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_topics_are_delivered_listed_and_captured(
    broker: Any, codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delivery with its notification log, the history of the configuration, silences, and a recording of the logs."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    number = next(_numbers)
    access = KafkaAccess(bootstrap_servers=broker.bootstrap)
    names, logs = TopicNames(prefix=f"compressed{number}", partitions=1), f"compressed{number}.in.logs"
    create(broker.bootstrap, codec, names, logs)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        producer.send(logs, value=b"a line of a log " * 20)
        producer.send(names.incidents, key=b"one", value=msgspec.json.encode(make_transition(incident="one")))
        producer.flush(timeout=20)
    called = threading.Event()
    with closing(SlackServer(on_call=lambda _: called.set())) as slack:
        config = SlackConfig(enabled=True, channel="flink-alerts", base_url=slack.base_url)
        delivery = Delivery(
            access, names, Sinks(slack=config, prometheus=PrometheusConfig(address="127.0.0.1", port=0))
        )
        delivery.start()
        try:
            assert called.wait(60)
        finally:
            delivery.stop()
        assert len(slack.parents()) == 1
    file = tmp_path / "flinkwatch.yaml"
    kafka = {
        "access": {"bootstrap_servers": broker.bootstrap},
        "logs": [logs],
        "metrics": [],
        "topics": {"prefix": names.prefix},
    }
    file.write_text(yaml.safe_dump({"kafka": kafka}))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli, [*arguments, "--config", str(file)])
        assert done.exit_code == 0, done.output
        return done.output

    ConfigTopic(access, names.config).publish(publish(LiveSettings(), 1_763_712_000_000, "a test"))
    assert "this is why" in run("silence", "add", "--job", "a", "--for", "10m", "--comment", "this is why", "--json")
    assert "this is why" in run("silence", "list", "--json")
    assert "a test" in run("config", "history")
    out = tmp_path / "out.jsonl.gz"
    run("capture", "--last", "1h", "--out", str(out))
    assert b"a line of a log" in gzip.decompress(out.read_bytes())


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_job_reads_logs_of_every_codec(installation: Callable[..., Installation]) -> None:
    """Four log topics, each compressed by the broker with another codec: a record of each is read."""
    here = installation()
    here.create_inputs(partitions=1)
    topics = {codec: f"{here.prefix}.in.{codec}" for codec in CODECS}
    with closing(KafkaAdminClient(bootstrap_servers=here.bootstrap)) as admin:
        for codec, name in topics.items():
            configs = {"compression.type": codec, "retention.ms": "-1"}
            admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})
    here.configuration["kafka"]["logs"] = list(topics.values())
    here.job = JobProcess(here.folder, here.configuration, "--no-deliver")
    # Each is rejected, and its dead letter names the topic.
    value = b'{"neither": "message nor log"}'
    here.send(Record(name, 0, 0, 1_763_712_000_000, None, value) for name in topics.values())
    here.job.start()
    here.wait_for(lambda: len(here.rejected()) == len(CODECS), within=240)
    assert {letter["topic"] for letter in here.rejected()} == set(topics.values())
    assert here.job.terminate() == 0
