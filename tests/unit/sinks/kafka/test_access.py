"""One description of Kafka, options for both clients, and no secret where it can be read."""

import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import BaseModel, ValidationError

from sinks.kafka.access import KafkaAccess, client_options, private_key, spark_options
from sinks.secret import SecretError

SECRET = 'hunter2 "quoted" \\back'

SCRAM: dict[str, Any] = {
    "bootstrap_servers": "a:9093, b:9093",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "flinkwatch",
    "sasl_password_env": "KAFKA_PASSWORD",
}


@pytest.fixture
def scram(monkeypatch: pytest.MonkeyPatch) -> KafkaAccess:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    return KafkaAccess(**SCRAM)


def test_plaintext_needs_nothing_but_servers() -> None:
    access = KafkaAccess(bootstrap_servers="localhost:9092")
    assert client_options(access) == {"bootstrap_servers": ["localhost:9092"], "security_protocol": "PLAINTEXT"}
    assert spark_options(access) == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.security.protocol": "PLAINTEXT",
    }


def test_scram_reaches_both_clients(scram: KafkaAccess) -> None:
    options = client_options(scram)
    assert options["bootstrap_servers"] == ["a:9093", "b:9093"]
    assert options["sasl_plain_password"] == SECRET
    assert options["ssl_check_hostname"] is True
    spark = spark_options(scram)
    assert spark["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert spark["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="flinkwatch" password="hunter2 \\"quoted\\" \\\\back";'
    )


def test_the_options_are_those_kafka_python_knows(scram: KafkaAccess, tmp_path: Path) -> None:
    from kafka import KafkaConsumer

    pem = {name: write(tmp_path, name) for name in ("ssl_ca_file", "ssl_cert_file", "ssl_key_file")}
    options = client_options(KafkaAccess(**SCRAM, **pem))
    assert set(options) <= set(KafkaConsumer.DEFAULT_CONFIG)


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"


def write(folder: Path, name: str) -> Path:
    file = folder / name
    file.write_text(KEY if "key" in name else CERTIFICATE)
    return file


def test_pem_files_go_to_spark_by_content_and_to_kafka_python_by_name(tmp_path: Path) -> None:
    access = KafkaAccess(
        bootstrap_servers="a:1",
        security_protocol="SSL",
        ssl_ca_file=write(tmp_path, "ca"),
        ssl_cert_file=write(tmp_path, "cert"),
        ssl_key_file=write(tmp_path, "key"),
        ssl_key_password_file=write(tmp_path, "password"),
        ssl_check_hostname=False,
    )
    assert spark_options(access) == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": CERTIFICATE,
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": CERTIFICATE,
        "kafka.ssl.keystore.key": KEY,
        "kafka.ssl.key.password": CERTIFICATE,
    }
    options = client_options(access)
    assert options["ssl_cafile"] == str(tmp_path / "ca")
    assert options["ssl_check_hostname"] is False


def test_a_key_java_cannot_read_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    key = tmp_path / "old.pem"
    key.write_text("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----")
    cert = write(tmp_path, "cert")
    access = KafkaAccess(bootstrap_servers="a:1", security_protocol="SSL", ssl_cert_file=cert, ssl_key_file=key)
    with pytest.raises(SecretError, match="openssl pkcs8"):
        spark_options(access)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bootstrap_servers": "localhost"}, "host:port"),
        ({"bootstrap_servers": ""}, "host:port"),
        ({"bootstrap_servers": "http://a:1"}, "host:port"),
        ({"sasl_mechanism": None}, "sasl_mechanism is needed"),
        ({"sasl_username": None}, "sasl_username is needed"),
        ({"sasl_password_env": None}, "sasl_password_env or sasl_password_file is needed"),
        ({"security_protocol": "SSL"}, "needs security_protocol SASL"),
        ({"security_protocol": "SASL_PLAINTEXT", "ssl_ca_file": "ca.pem"}, "needs security_protocol SSL"),
        ({"ssl_cert_file": "cert.pem"}, "belong together"),
        ({"sasl_mechanism": "GSSAPI"}, "SCRAM-SHA-512"),
        ({"sasl_pasword_env": "X"}, "sasl_pasword_env"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        KafkaAccess(**SCRAM | changes)


def test_ipv6_addresses_are_servers() -> None:
    assert KafkaAccess(bootstrap_servers="[::1]:9092").bootstrap_servers == "[::1]:9092"


def test_no_secret_shows_in_repr_error_or_log(scram: KafkaAccess, caplog: pytest.LogCaptureFixture) -> None:
    client, spark = client_options(scram), spark_options(scram)
    logging.getLogger().warning("options %s %r", client, spark)
    for text in (repr(scram), str(scram.model_dump()), repr(client), repr(spark), caplog.text):
        assert "hunter2" not in text


def test_a_password_in_the_file_is_refused_without_being_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        KafkaAccess(**SCRAM, sasl_password="hunter2")
    assert "hunter2" not in str(caught.value)


def test_missing_secrets_are_named_by_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    with pytest.raises(SecretError, match="sasl_password_env: environment variable KAFKA_PASSWORD is not set"):
        client_options(KafkaAccess(**SCRAM))
    file = tmp_path / "password"
    access = KafkaAccess(**SCRAM | {"sasl_password_env": None, "sasl_password_file": file})
    with pytest.raises(SecretError, match=f"sasl_password_file: cannot read {file}: No such file"):
        client_options(access)
    file.write_text(" \n")
    with pytest.raises(SecretError, match="is empty"):
        client_options(access)
    file.write_bytes(b"hunter2\xff")
    with pytest.raises(SecretError) as caught:
        client_options(access)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_file_wins_and_loses_its_newline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "from the environment")
    file = tmp_path / "password"
    file.write_text("from the file\n")
    assert client_options(KafkaAccess(**SCRAM, sasl_password_file=file))["sasl_plain_password"] == "from the file"


def test_every_setting_is_described() -> None:
    from sinks.kafka.topics import TopicNames
    from sinks.settings import Sinks

    models = [KafkaAccess, TopicNames, Sinks, *(f.annotation for f in Sinks.model_fields.values())]
    models = [model for model in models if isinstance(model, type) and issubclass(model, BaseModel)]
    for model in models:
        for name, field in model.model_fields.items():
            assert field.description, f"{model}.{name}"
            assert field.description.endswith("."), f"{model}.{name}"


def test_a_key_in_an_encryption_that_java_cannot_read_is_said_with_the_command_that_mends_it(tmp_path: Path) -> None:
    """What OpenSSL and cryptography make by default: Spark's client would say no more than "PBES2"."""
    key = ec.generate_private_key(ec.SECP256R1())
    encryption = serialization.BestAvailableEncryption(b"canary")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    (tmp_path / "key.pem").write_bytes(pem)
    with pytest.raises(SecretError, match=r"encrypted by PBES2, .* openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES"):
        private_key(tmp_path / "key.pem")
