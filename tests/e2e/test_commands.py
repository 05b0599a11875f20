"""Commands on a real broker: what `play` writes, what a silence matches, what is open, what arrives, and why."""

import gzip
import re
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from detectors.engine import bucket
from detectors.engine.bucket import BucketIndex
from detectors.events.event import Record
from detectors.incident import Reading, Transition
from detectors.settings.live import (
    CONFIG_KEY,
    RESOLVE_KEY,
    LiveSettings,
    PublishedResolution,
    encode_published,
    publish,
    read_change,
)
from sinks.delivery.notification_log import Entry
from streaming.cli.main import cli
from streaming.configuration.settings import load
from streaming.configuration.trials import TrialError
from streaming.errors import PublishedError
from streaming.inspection.recomputation import replay_cluster
from streaming.recordings.recording import line_of, records_of
from streaming.recordings.redate import redated
from streaming.recordings.replay import MemoryStore
from tests.embedded.broker import Broker
from tests.recorded import recording
from tests.unit.sinks.samples import OPENED_AT, make_transition
from tests.unit.sinks.web.page_samples import chain

pytestmark = pytest.mark.e2e
NAME = "commands"


@pytest.fixture(scope="module")
def config(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of an installation of its own, with its topics."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    own = ("logs", "metrics", "config", "incidents", "readings", "deliveries")
    admin.create_topics([NewTopic(f"{NAME}.{name}", 1, 1) for name in own])
    admin.close()
    file = tmp_path_factory.mktemp("commands") / "own.yaml"
    kafka = {
        "access": {"bootstrap_servers": broker.bootstrap},
        "logs": [f"{NAME}.logs"],
        "metrics": [f"{NAME}.metrics"],
        "topics": {"prefix": NAME},
    }
    file.write_text(yaml.safe_dump({"kafka": kafka, "sinks": {"prometheus": {"enabled": False}}}))
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)


def json_lines(result: Result) -> list[Any]:
    return [msgspec.json.decode(line) for line in result.stdout.split("\n") if line]


def test_what_is_played_is_marked_as_an_exercise_in_every_record(broker: Broker, config: Path, tmp_path: Path) -> None:
    text = (
        "2026-11-21 02:14:5{},000 INFO  o.a.f.r.r.StandaloneResourceManager [] - TaskManager with id a:1-b is closed."
    )
    at = 1_795_227_290_000
    log = [
        Record(f"{NAME}.logs", 0, n, at + n * 300, b"prod/jm-1", text.format(n).encode(), (("cluster", b"prod"),))
        for n in range(3)
    ]
    recording = tmp_path / "short.jsonl.gz"
    recording.write_bytes(gzip.compress(b"".join(map(line_of, log))))
    before = time.time() * 1000
    done = run("play", recording, "--config", config)
    assert done.exit_code == 0
    assert f"Using {config}: Kafka at {broker.bootstrap}" in done.stderr
    played = _read(broker, f"{NAME}.logs")
    assert [dict(r.headers) for r in played] == [{"cluster": b"exercise-prod"}] * 3
    assert all(r.timestamp >= before for r in played)
    (cluster,) = json_lines(run("inputs", "--json", "--config", config))
    assert (cluster["cluster"], cluster["logs"]["records"]) == ("exercise-prod", 3)


def test_a_silence_counts_the_open_incidents_of_the_topic(broker: Broker, config: Path) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for t in (
        make_transition(incident="a", job_name="orders"),
        make_transition(incident="b", job_name="orders-eu"),
        make_transition(incident="b", job_name="orders-eu", transition="resolved"),
    ):
        producer.send(f"{NAME}.incidents", key=t.incident.encode(), value=msgspec.json.encode(t))
    producer.flush()
    producer.close()
    added = run("silence", "add", "--config", config, "--job", "orders*", "--for", "1h", "--comment", "x")
    assert "It matches 1 open incident: a " in added.stdout
    (row,) = json_lines(run("silence", "list", "--json", "--config", config))
    assert (row["state"], row["mutes"]) == ("active", 1)
    assert [t["incident"] for t in json_lines(run("status", "--json", "--config", config))] == ["a"]
    assert f"Ended silence {row['id']}." in run("silence", "expire", row["id"], "--config", config).stdout


def test_the_page_of_an_incident_shows_its_changes_its_thresholds_and_what_was_sent(
    broker: Broker, config: Path, tmp_path: Path
) -> None:
    live = LiveSettings.model_validate({"detectors": {"late_barrier_acks": {"settle": "7s"}}})
    published = publish(live, 1, "ann", "apply")
    sent = Entry(incident="9f2c41d07b3e", seq=1, state="sent", at=OPENED_AT + 2_000)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for t in chain(config=published.hash):
        producer.send(f"{NAME}.incidents", key=t.incident.encode(), value=msgspec.json.encode(t))
    producer.send(f"{NAME}.deliveries", key=b"slack/9f2c41d07b3e", value=msgspec.json.encode(sent))
    producer.send(f"{NAME}.config", key=CONFIG_KEY, value=encode_published(published))
    producer.flush()
    producer.close()
    page = tmp_path / "page.html"
    assert run("report", "9f2c41d07b3e", "--config", config, "--out", page).exit_code == 0
    html = page.read_text()
    assert [f'id="change-{n}"' in html for n in (1, 2, 3, 4)] == [True, True, True, False]
    assert "slack notified of change 1" in html
    assert re.search(r"late_barrier_acks\.settle</code></th><td>7s<", html)


def test_the_doctor_lists_what_the_readings_show_and_a_cluster_that_is_gone_no_more(
    broker: Broker, config: Path
) -> None:
    readings = [
        Reading(name="flink_info", labels={"cluster": "billing", "version": "1.17.1"}, value=1, at=OPENED_AT),
        Reading(
            name="flink_setting_info",
            labels={"cluster": "billing", "key": "heartbeat.timeout", "value": "10 s"},
            value=1,
            at=OPENED_AT,
        ),
        Reading(name="flink_info", labels={"cluster": "gone", "version": "1.20.5"}, value=1, at=OPENED_AT),
    ]
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for reading in readings:
        producer.send(f"{NAME}.readings", key=reading.key().encode(), value=msgspec.json.encode(reading))
    producer.send(f"{NAME}.readings", key=readings[-1].key().encode(), value=None)
    producer.flush()
    producer.close()
    (found,) = json_lines(run("doctor", "--json", "--config", config))
    assert (found["cluster"], found["version"]) == ("billing", "1.17.1")
    assert "heartbeat.timeout is 10 s" in [risk["seen"] for risk in found["risks"]]
    assert "FLINK-33231" in [issue["id"] for issue in found["known_issues"]]
    listed = run("doctor", "--config", config, "--cluster", "bill*")
    assert (listed.exit_code, listed.stdout.splitlines()[0].split(":")[0]) == (0, "Cluster billing, Flink 1.17.1")
    assert run("doctor", "--config", config, "--cluster", "gone").stdout == "No cluster matches gone.\n"


def test_an_incident_is_explained_and_exported(broker: Broker, config: Path, tmp_path: Path) -> None:
    found = list(records_of(recording("taskmanager-killed-1.9.3")))
    begin = round(time.time() * 1000)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for record in redated(found, begin):
        headers, at = list(record.headers), record.timestamp
        topic = record.topic.replace("flink", NAME)
        producer.send(topic, key=record.key, value=record.value, headers=headers, timestamp_ms=at)
    producer.flush()
    recorded = tmp_path / "recorded.jsonl.gz"
    assert run("capture", "--last", "1d", "--out", recorded, "--config", config).exit_code == 0
    for t in replay_cluster(load(config), recorded, "flink-1.9.3"):
        producer.send(f"{NAME}.incidents", key=t.incident.encode(), value=msgspec.json.encode(t))
        incident = t.incident
    producer.flush()
    producer.close()
    explained = run("explain", incident, "--config", config).stdout
    assert "no longer retained" not in explained
    assert explained.splitlines()[-1].startswith("reproduced: yes")
    done = run("incident", "export", incident, "--out", tmp_path / "found", "--config", config)
    assert done.stdout.endswith("A replay of them reports: TaskManager lost.\n")


def _read(broker: Broker, topic: str) -> list[Record]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    end = consumer.end_offsets([partition])[partition]
    consumer.seek_to_beginning(partition)
    found: list[Record] = []
    deadline = time.monotonic() + 60
    while len(found) < end and time.monotonic() < deadline:
        arrived = consumer.poll(timeout_ms=500).get(partition, [])
        found += [
            Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in arrived
        ]
    consumer.close()
    return found


def test_a_configuration_is_written_after_its_brokers_and_topics_were_tried(
    broker: Broker, config: Path, tmp_path: Path
) -> None:
    out = tmp_path / "my.yaml"
    init = ("config", "init", "--yes", "--out")
    servers = ("--bootstrap-servers", broker.bootstrap, "--metrics", f"{NAME}.metrics")
    done = run(*init, out, *servers, "--logs", f"{NAME}.logs")
    assert done.exit_code == 0
    assert load(out).kafka.logs == (f"{NAME}.logs",)
    with pytest.raises(TrialError, match=f"Kafka has no topic {NAME}.nosuch"):
        run(*init, f"{out}.2", *servers, "--logs", f"{NAME}.nosuch")
    with pytest.raises(TrialError, match="no Kafka broker answers"):
        run(*init, f"{out}.2", "--bootstrap-servers", "127.0.0.1:1")


def test_an_incident_that_is_resolved_by_hand_reaches_the_job_with_name_and_reason(
    broker: Broker, config: Path
) -> None:
    """The job's part is played by the bucket that the job runs, on the record that the command has written."""
    _write(broker, f"{NAME}.incidents", make_transition(incident="by-hand", cluster="gone"))
    job = threading.Thread(target=_resolve_as_the_job, args=(broker, RESOLVE_KEY + b"by-hand"), daemon=True)
    job.start()
    command = ("incident", "resolve", "by-hand", "--comment", "taken down", "--author", "ann", "--config", config)
    assert run(*command, "--timeout", "2m").stdout.endswith(": resolved by ann: taken down\n")
    with pytest.raises(PublishedError, match="incident by-hand was resolved at"):
        run(*command)
    job.join(60)


def _resolve_as_the_job(broker: Broker, key: bytes) -> None:
    deadline = time.monotonic() + 120
    while not (found := [record for record in _read(broker, f"{NAME}.config") if record.key == key]):
        assert time.monotonic() < deadline
    change = read_change(key, found[0].value)
    assert isinstance(change, PublishedResolution)
    index = BucketIndex()
    index.resolve([change])
    (end,) = bucket.step(index, MemoryStore(), [], OPENED_AT).transitions
    _write(broker, f"{NAME}.incidents", end)


def _write(broker: Broker, topic: str, one: Transition) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(topic, key=one.incident.encode(), value=msgspec.json.encode(one)).get(timeout=60)
    producer.close()
