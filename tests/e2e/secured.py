"""A broker with every kind of listener, and who may use it. Certificates and passwords are made anew for each run."""

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives import serialization as form
from kafka import KafkaAdminClient
from kafka.admin import UserScramCredentialUpsertion

from tests.embedded.broker import Broker
from tests.embedded.listeners import Listener

USER = "flinkwatch"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Secured:
    """The running broker and the files and passwords of its clients."""

    broker: Broker
    folder: Path
    password: str
    key_password: str

    def access(self, listener: str, protocol: str, **more: object) -> dict[str, Any]:
        """The section kafka.access for a listener."""
        access: dict[str, Any] = {"bootstrap_servers": self.broker.address(listener), "security_protocol": protocol}
        if protocol.endswith("SSL"):
            access["ssl_ca_file"] = str(self.folder / "ca.pem")
        if protocol.startswith("SASL"):
            access |= {"sasl_username": USER, "sasl_password_file": str(self.folder / "password")}
        return access | more

    @property
    def client_certificate(self) -> dict[str, str]:
        """What mutual TLS adds to the section."""
        return {
            "ssl_cert_file": str(self.folder / "client.pem"),
            "ssl_key_file": str(self.folder / "client-3des.key"),
            "ssl_key_password_file": str(self.folder / "key-password"),
        }

    def ways(self) -> dict[str, dict[str, Any]]:
        """Every way that is served, by name."""
        return {
            "tls": self.access("TLS", "SSL"),
            "mutual tls": self.access("MUTUAL", "SSL", **self.client_certificate),
            "scram over tls": self.access("LOGIN_TLS", "SASL_SSL", sasl_mechanism="SCRAM-SHA-512"),
            "plain over tls": self.access("LOGIN_TLS", "SASL_SSL", sasl_mechanism="PLAIN"),
            "scram": self.access("LOGIN", "SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512"),
            "plain": self.access("LOGIN", "SASL_PLAINTEXT", sasl_mechanism="PLAIN"),
        }


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    """The broker while the block lasts; `folder` takes the files."""
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    stranger.cert_pem.write_to_path(str(folder / "other-ca.pem"))
    password, key_password = _canary(), _canary()
    for name, secret in {"password": password, "wrong-password": _canary(), "key-password": key_password}.items():
        (folder / name).write_text(f"{secret}\n")
    _identity(folder / "broker", authority.issue_cert("127.0.0.1"))
    _identity(folder / "client", authority.issue_cert("client.example.org", common_name=USER))
    # The only encryption of a key that Java reads in PEM; cryptography does not write it.
    files = ["-in", str(folder / "client.key"), "-out", str(folder / "client-3des.key")]
    convert = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", *files, "-passout", f"file:{folder}/key-password"]
    subprocess.run(convert, check=True)
    _identity(folder / "stranger", stranger.issue_cert("client.example.org", common_name=USER))
    past = datetime.now(UTC) - timedelta(days=1)
    _identity(
        folder / "expired", authority.issue_cert("127.0.0.1", not_before=past - timedelta(days=9), not_after=past)
    )
    _identity(folder / "elsewhere", authority.issue_cert("kafka.example.org"))
    with Broker(listeners=_listeners(folder, password)) as broker:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, "SCRAM-SHA-512", password)])
        yield Secured(broker, folder, password, key_password)


def _listeners(folder: Path, password: str) -> list[Listener]:
    tls = _keystore(folder / "broker")
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    login = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{password}";',
        "scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    return [
        Listener("TLS", "SSL", tls),
        Listener("MUTUAL", "SSL", {**tls, **trusted, "ssl.client.auth": "required"}),
        Listener("LOGIN", "SASL_PLAINTEXT", login),
        Listener("LOGIN_TLS", "SASL_SSL", {**tls, **login}),
        Listener("EXPIRED", "SSL", _keystore(folder / "expired")),
        Listener("ELSEWHERE", "SSL", _keystore(folder / "elsewhere")),
    ]


def _keystore(name: Path) -> dict[str, str]:
    """Kafka wants key and certificate in one file."""
    both = name.with_suffix(".keystore")
    both.write_text(name.with_suffix(".key").read_text() + name.with_suffix(".pem").read_text())
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}


def _identity(name: Path, certificate: trustme.LeafCert) -> None:
    """Certificate chain and key in PKCS#8, which is the form that Java reads."""
    name.with_suffix(".pem").write_bytes(b"".join(part.bytes() for part in certificate.cert_chain_pems))
    key = form.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encoded = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    name.with_suffix(".key").write_bytes(encoded)


def _canary() -> str:
    """A secret that is found wherever it shows, also when it is cut or escaped elsewhere."""
    return f"canary-{secrets.token_hex(12)}"
