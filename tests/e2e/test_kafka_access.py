"""Kafka with login and encryption, for real: both clients from one section kafka.access, and what each fault says."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.diagnosis import lasting_obstacle
from tests.e2e.secured import USER, Secured, secured_broker

pytestmark = pytest.mark.e2e

PROJECT = Path(__file__).parents[2]
WAYS = ["tls", "mutual tls", "scram over tls", "plain over tls", "scram", "plain"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(scope="module")
def topic(secured: Secured) -> str:
    """One record, written by nobody in particular."""
    with closing(KafkaProducer(bootstrap_servers=secured.broker.bootstrap)) as producer:
        from kafka import KafkaAdminClient

        with closing(KafkaAdminClient(bootstrap_servers=secured.broker.bootstrap)) as admin:
            admin.create_topics({"ways": {"num_partitions": 1, "replication_factor": 1}})
            admin.wait_for_topics(["ways"])
        producer.send("ways", b"from the plain listener").get(timeout=20)
    return "ways"


@pytest.mark.parametrize("way", WAYS)
def test_kafka_python_reads_and_writes(secured: Secured, topic: str, way: str) -> None:
    access = KafkaAccess(**secured.ways()[way])
    assert lasting_obstacle(access) is None
    with closing(KafkaProducer(**client_options(access))) as producer:
        producer.send(topic, way.encode()).get(timeout=20)
    with closing(KafkaConsumer(**client_options(access), enable_auto_commit=False)) as consumer:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        assert way.encode() in {record.value for record in consumer.poll(timeout_ms=5_000)[where]}


THROUGH_SPARK = """
import json, os, sys
from sinks.kafka.access import KafkaAccess, spark_options
from streaming.job.spark.session import start_session
from streaming.configuration.settings import Streaming
from streaming.job.spark.troubles import cause_of
spark = start_session(Streaming(master="local[1]"))
for name, section in json.load(sys.stdin).items():
    options = spark_options(KafkaAccess(**section))
    try:
        row = spark.createDataFrame([(bytes(name, "utf8"),)], "value binary")
        row.write.format("kafka").options(**options).option("topic", "ways").save()
        read = spark.read.format("kafka").options(**options).option("subscribe", "ways").load()
        said = [bytes(r.value).decode() for r in read.select("value").collect()]
    except Exception as error:
        said = cause_of(error)
    print(json.dumps([name, said]), flush=True)
spark.stop()
"""


def through_spark(sections: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """What Spark's client reads, or its error, by name of the section; and all that came out."""
    done = subprocess.run(
        [sys.executable, "-c", THROUGH_SPARK],
        input=json.dumps(sections),
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines())), done.stdout + done.stderr


@pytest.mark.slow
def test_spark_reads_and_writes(secured: Secured, topic: str) -> None:
    """From the very same sections; and a wrong password is one line that does not hold it."""
    wrong = {"sasl_password_file": str(secured.folder / "wrong-password")}
    ways = {way: secured.ways()[way] for way in ("mutual tls", "scram over tls", "plain")}
    said, everything = through_spark({**ways, "wrong": ways["scram over tls"] | wrong})
    for way in ways:
        assert way in said[way], said[way]
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in said["wrong"]
    assert "\n" not in said["wrong"]
    assert "canary-" not in everything


def faulty(secured: Secured, fault: str) -> tuple[dict[str, Any], str]:
    """A section that does not work, and what must be said of it."""
    files, ways = secured.folder, secured.ways()
    expired = secured.access("EXPIRED", "SSL")
    elsewhere = secured.access("ELSEWHERE", "SSL")
    stranger = {"ssl_cert_file": str(files / "stranger.pem"), "ssl_key_file": str(files / "stranger.key")}
    wrong = {"sasl_password_file": str(files / "wrong-password")}
    no_login = {"bootstrap_servers": secured.broker.address("LOGIN"), "security_protocol": "PLAINTEXT"}
    plaintext = {"bootstrap_servers": secured.broker.address("TLS"), "security_protocol": "PLAINTEXT"}
    encrypted = {**ways["tls"], "bootstrap_servers": secured.broker.bootstrap}
    refused = f"refuses the login of {USER} by"
    return {
        "wrong password, scram": (
            ways["scram over tls"] | wrong,
            f"{refused} SCRAM-SHA-512: wrong sasl_username, or wrong",
        ),
        "wrong password, plain": (ways["plain"] | wrong, f"{refused} PLAIN: wrong sasl_username, or wrong password in"),
        "unknown authority": (ways["tls"] | {"ssl_ca_file": str(files / "other-ca.pem")}, "is not trusted by"),
        "expired certificate": (expired, "the broker's certificate has expired"),
        "another name": (elsewhere, "the broker's certificate is for another name"),
        "plaintext to tls": (plaintext, "TLS, security_protocol is PLAINTEXT"),
        "tls to plaintext": (encrypted, "TLS, security_protocol is SSL"),
        "login not given": (no_login, "wants a login, which needs sasl_mechanism"),
        "login not taken": (
            ways["scram over tls"] | {"bootstrap_servers": secured.broker.address("TLS")},
            "takes no login, security_protocol is SASL_SSL",
        ),
        "another mechanism": (
            ways["scram"] | {"sasl_mechanism": "SCRAM-SHA-256"},
            "or it takes no login by SCRAM-SHA-256",
        ),
        "no client certificate": (secured.access("MUTUAL", "SSL"), "refuses the client without a certificate"),
        "strange client certificate": (secured.access("MUTUAL", "SSL", **stranger), "refuses the certificate in"),
        "wrong key password": (
            ways["mutual tls"] | {"ssl_key_password_file": str(files / "wrong-password")},
            "or ssl_key_password is wrong",
        ),
        "no such file": (ways["tls"] | {"ssl_ca_file": "/nowhere.pem"}, "/nowhere.pem cannot be read: No such file"),
        "not a certificate": (ways["tls"] | {"ssl_ca_file": str(files / "password")}, "holds no certificate in PEM"),
    }[fault]


FAULTS = [
    "wrong password, scram",
    "wrong password, plain",
    "unknown authority",
    "expired certificate",
    "another name",
    "plaintext to tls",
    "login not given",
    "login not taken",
    "another mechanism",
    "no client certificate",
    "strange client certificate",
    "wrong key password",
    "no such file",
    "not a certificate",
]
SLOW_FAULTS = ["tls to plaintext"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_waiting_does_not_mend_is_one_line_at_once(secured: Secured, fault: str) -> None:
    section, expected = faulty(secured, fault)
    began = time.monotonic()
    said = lasting_obstacle(KafkaAccess(**section))
    assert said is not None
    assert expected in said
    assert "\n" not in said
    assert "canary-" not in said
    # Commands wait half a minute for what may pass.
    assert time.monotonic() - began < 15


COMMANDS = {"run": ["run"], "deliver": ["deliver"], "capture": ["capture", "--last", "1h"]}


@pytest.mark.parametrize(
    ("command", "fault"),
    [("run", "wrong password, scram"), ("deliver", "expired certificate"), ("capture", "unknown authority")],
)
def test_a_command_ends_with_that_line(secured: Secured, fault: str, command: str, tmp_path: Path) -> None:
    section, expected = faulty(secured, fault)
    said, status = flinkwatch(tmp_path, section, COMMANDS[command])
    assert status == 1
    last = said.splitlines()[-1]
    last = json.loads(last)["event"] if command == "run" else last
    assert last.startswith("flinkwatch: kafka.access: ")
    assert expected in last
    assert "canary-" not in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("fault", SLOW_FAULTS)
def test_an_error_that_a_starting_broker_may_cause_is_reported_after_half_a_minute(
    secured: Secured, fault: str, tmp_path: Path
) -> None:
    section, expected = faulty(secured, fault)
    said, status = flinkwatch(tmp_path, section, ["run"])
    assert status == 1
    assert expected in said.splitlines()[-1]


def flinkwatch(folder: Path, access: dict[str, Any], command: list[str]) -> tuple[str, int]:
    """What a command prints, and its exit status."""
    configuration = {
        "kafka": {"access": access, "logs": ["none"], "metrics": ["none"]},
        "streaming": {"checkpoint": str(folder / "checkpoint")},
        "sinks": {"prometheus": {"address": "127.0.0.1", "port": 0}},
    }
    (folder / "flinkwatch.yaml").write_text(json.dumps(configuration))
    done = subprocess.run(
        [sys.executable, "-m", "streaming", "--log-format", "json", *command, "--config", folder / "flinkwatch.yaml"],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout, done.returncode
