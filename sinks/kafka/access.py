"""How to reach Kafka: one model, and from it the options of both clients (kafka-python and Spark's connector).

Secrets are named, not held: the model knows the environment variable or the file, the two functions read it.
"""

import binascii
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sinks.secret import Secret, SecretError, read_secret

# The object identifier 1.2.840.113549.1.5.13, as it is encoded in a key.
_PBES2 = bytes.fromhex("2a864886f70d01050d")
_SERVER = re.compile(r"[^\s,:/]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class KafkaAccess(BaseModel):
    """Addresses and credentials of the Kafka cluster that holds Flink's logs and flinkwatch's own topics."""

    # Inputs stay out of errors, because a password may be written under a key that does not exist.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    bootstrap_servers: str = Field(
        description="Brokers to ask first, host:port, comma-separated. Two or more, so that one may be down at start."
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT",
        description="Kafka's security.protocol of the brokers' listener: SSL encrypts, SASL logs in.",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="How to log in; needed with SASL_PLAINTEXT and SASL_SSL."
    )
    sasl_username: str | None = Field(default=None, description="User to log in as; needed with SASL.")
    sasl_password_env: str | None = Field(
        default=None, description="Environment variable that holds the password, which is never in the file."
    )
    sasl_password_file: Path | None = Field(
        default=None, description="File that holds the password, such as a mounted secret; wins over the variable."
    )
    ssl_ca_file: Path | None = Field(
        default=None, description="PEM file of the authorities to trust; without it those of the system."
    )
    ssl_cert_file: Path | None = Field(
        default=None, description="PEM file of the client's certificate chain, for brokers that ask for one."
    )
    ssl_key_file: Path | None = Field(
        default=None,
        description="PEM file of the client's private key in PKCS#8 (BEGIN PRIVATE KEY), the only form for Java.",
    )
    ssl_key_password_env: str | None = Field(
        default=None, description="Environment variable that holds the password of the private key, if it has one."
    )
    ssl_key_password_file: Path | None = Field(
        default=None, description="File that holds the password of the private key; wins over the variable."
    )
    ssl_check_hostname: bool = Field(
        default=True, description="Compare the broker's name with its certificate; off only for test clusters."
    )

    @field_validator("bootstrap_servers")
    @classmethod
    def _servers_have_ports(cls, value: str) -> str:
        servers = [server.strip() for server in value.split(",")]
        for server in servers:
            if not _SERVER.fullmatch(server):
                raise ValueError(f"must be host:port, comma-separated; {server!r} is not")
        return ",".join(servers)

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        problem = next(self._problems(), None)
        if problem is not None:
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        sasl = {"sasl_mechanism": self.sasl_mechanism, "sasl_username": self.sasl_username}
        password = self.sasl_password_env or self.sasl_password_file
        if self.security_protocol.startswith("SASL"):
            for name, value in sasl.items():
                if value is None:
                    yield f"{name} is needed with security_protocol {self.security_protocol}"
            if password is None:
                yield f"sasl_password_env or sasl_password_file is needed with {self.security_protocol}"
        elif password or any(sasl.values()):
            yield f"sasl_* needs security_protocol SASL_PLAINTEXT or SASL_SSL, not {self.security_protocol}"
        if (self.ssl_cert_file is None) != (self.ssl_key_file is None):
            yield "ssl_cert_file and ssl_key_file belong together"
        files = self.ssl_ca_file or self.ssl_cert_file or self.ssl_key_password_env or self.ssl_key_password_file
        if files and not self.security_protocol.endswith("SSL"):
            yield f"ssl_* needs security_protocol SSL or SASL_SSL, not {self.security_protocol}"

    def sasl_password(self) -> Secret:
        """The password to log in with. Raises SecretError."""
        return read_secret("sasl_password", self.sasl_password_env, self.sasl_password_file)

    def key_password(self) -> Secret | None:
        """The password of the private key, None when it has none. Raises SecretError."""
        if self.ssl_key_password_env is None and self.ssl_key_password_file is None:
            return None
        return read_secret("ssl_key_password", self.ssl_key_password_env, self.ssl_key_password_file)


def client_options(access: KafkaAccess) -> dict[str, Any]:
    """Keyword arguments for any kafka-python client (3.x).

    Raises SecretError when a secret cannot be read.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap_servers.split(","),
        "security_protocol": access.security_protocol,
    }
    if access.sasl_mechanism is not None:
        options["sasl_mechanism"] = access.sasl_mechanism
        options["sasl_plain_username"] = access.sasl_username
        options["sasl_plain_password"] = access.sasl_password()
    if access.security_protocol.endswith("SSL"):
        files = {
            "ssl_cafile": access.ssl_ca_file,
            "ssl_certfile": access.ssl_cert_file,
            "ssl_keyfile": access.ssl_key_file,
        }
        options |= {name: str(file) for name, file in files.items() if file is not None}
        options["ssl_check_hostname"] = access.ssl_check_hostname
        # Without one OpenSSL would ask for it at the terminal.
        options["ssl_password"] = access.key_password() or ""
    return options


def spark_options(access: KafkaAccess) -> dict[str, str]:
    """Options ("kafka.*") for Spark's Kafka source and sink.

    Certificates and keys are passed by content, so that executors need no files.

    Raises SecretError when a secret or a PEM file cannot be read.
    """
    options: dict[str, str] = {
        "kafka.bootstrap.servers": access.bootstrap_servers,
        "kafka.security.protocol": access.security_protocol,
    }
    if access.sasl_mechanism is not None:
        options["kafka.sasl.mechanism"] = access.sasl_mechanism
        options["kafka.sasl.jaas.config"] = _jaas(access)
    if access.security_protocol.endswith("SSL"):
        options |= _spark_ssl_options(access)
    return options


def _jaas(access: KafkaAccess) -> Secret:
    module = _LOGIN_MODULES[access.sasl_mechanism or "PLAIN"]
    user, password = _quoted(access.sasl_username or ""), _quoted(access.sasl_password())
    return Secret(f"{module} required username={user} password={password};")


def _quoted(text: str) -> str:
    """`text` as a JAAS string: Java's StreamTokenizer knows these escapes, and ends a string at a line's end."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _spark_ssl_options(access: KafkaAccess) -> dict[str, str]:
    options: dict[str, str] = {}
    if not access.ssl_check_hostname:
        options["kafka.ssl.endpoint.identification.algorithm"] = ""
    if access.ssl_ca_file is not None:
        options["kafka.ssl.truststore.type"] = "PEM"
        options["kafka.ssl.truststore.certificates"] = _pem("ssl_ca_file", access.ssl_ca_file)
    if access.ssl_cert_file is not None and access.ssl_key_file is not None:
        options["kafka.ssl.keystore.type"] = "PEM"
        options["kafka.ssl.keystore.certificate.chain"] = _pem("ssl_cert_file", access.ssl_cert_file)
        options["kafka.ssl.keystore.key"] = private_key(access.ssl_key_file)
    password = access.key_password()
    if password is not None:
        options["kafka.ssl.key.password"] = password
    return options


def _pem(setting: str, file: Path) -> Secret:
    content = read_secret(setting.removesuffix("_file"), None, file)
    if "-----BEGIN " not in content:
        raise SecretError(f"{setting}: {file} is not a PEM file")
    return content


def private_key(file: Path) -> Secret:
    """The text of a private key in a form that Java reads. Raises SecretError with the command that makes one."""
    content = _pem("ssl_key_file", file)
    if "-----BEGIN PRIVATE KEY-----" not in content and "-----BEGIN ENCRYPTED PRIVATE KEY-----" not in content:
        raise SecretError(
            f"ssl_key_file: {file} is not PKCS#8, which Java needs; "
            f"convert it: openssl pkcs8 -topk8 -nocrypt -in {file} -out key.pem"
        )
    if _PBES2 in _der(content):
        raise SecretError(
            f"ssl_key_file: {file} is encrypted by PBES2, which Java cannot read; "
            f"convert it: openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in {file} -out key.pem"
        )
    return content


def _der(pem: str) -> bytes:
    lines = (line for line in pem.splitlines() if not line.startswith("-----"))
    try:
        return binascii.a2b_base64("".join(lines))
    except binascii.Error:
        return b""
