"""Why Kafka cannot be reached, in one line that holds no secret.

kafka-python tries again until its time is up and then says that it could not bootstrap: whether the certificate has
expired or the port speaks another protocol, it tells its debug log alone. So the way is walked once more here.
"""

import os
import socket
import ssl
import struct
from typing import NamedTuple

from kafka.errors import KafkaError

from sinks.kafka.access import KafkaAccess
from sinks.kafka.login import LoginRefusedError, login, read_exactly
from sinks.kafka.tls import tls_context
from sinks.secret import SecretError

_TIMEOUT_S = 3.0
# ApiVersions 0, which every broker answers, also before a login: size, key, version, correlation id, no client id.
_CORRELATION = 7
_QUESTION = struct.pack(">ihhih", 10, 18, 0, _CORRELATION, -1)
_TLS_ALERT = 0x15
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_NAME = (62, 64)


class Obstacle(NamedTuple):
    """What is in the way to one broker; `lasting`: waiting does not mend it."""

    text: str
    lasting: bool = True


def lasting_obstacle(access: KafkaAccess) -> str | None:
    """What is wrong with certificates, keys, protocol or login; None when a broker answers or may do so later."""
    try:
        return next((o.text for o in _obstacles(access) if o.lasting), None)
    except SecretError as error:
        return str(error)


def explain(access: KafkaAccess, error: KafkaError | SecretError) -> str:
    """What an error of a Kafka client means for who runs flinkwatch. Threads that go on after it rely on an answer."""
    if isinstance(error, SecretError):
        return str(error)
    servers = access.bootstrap_servers
    try:
        found = _obstacles(access)
    except SecretError as problem:
        return str(problem)
    if found:
        return f"no Kafka broker answers at {servers}: {found[0].text}"
    return f"Kafka at {servers}: {_line(error)}"


def _obstacles(access: KafkaAccess) -> list[Obstacle]:
    """None as soon as one broker answers, else what is in the way to each, the lasting first. Raises SecretError."""
    context = tls_context(access) if access.security_protocol.endswith("SSL") else None
    found = []
    for server in access.bootstrap_servers.split(","):
        obstacle = _ask(access, server, context)
        if obstacle is None:
            return []
        found.append(obstacle)
    return sorted(found, key=lambda o: not o.lasting)


def _ask(access: KafkaAccess, server: str, context: ssl.SSLContext | None) -> Obstacle | None:
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), _TIMEOUT_S) as plain:
            if context is None:
                return _talk(server, access, plain)
            with context.wrap_socket(plain, server_hostname=host) as encrypted:
                return _talk(server, access, encrypted)
    except (LoginRefusedError, OSError) as error:
        return _obstacle(access, server, error)
    except SecretError:
        raise
    except (ValueError, LookupError, struct.error):
        # What kafka-python and struct make of an answer that is cut or is no login.
        return Obstacle(f"{server} answers, but not as a Kafka broker")


def _obstacle(access: KafkaAccess, server: str, error: LoginRefusedError | OSError) -> Obstacle:
    match error:
        case LoginRefusedError():
            return Obstacle(f"{server} {error}")
        case ssl.SSLCertVerificationError():
            return Obstacle(f"{server}: {_distrust(access, error)}")
        case ssl.SSLError():
            return Obstacle(f"{server}: {_refusal(access, error)}")
        case ConnectionResetError() | BrokenPipeError():
            return _breaks_off(server, access)
        case TimeoutError():
            return Obstacle(f"{server}: {timed_out(server)}", lasting=False)
        case _:
            return Obstacle(f"{server}: {error.strerror or error}", lasting=False)


def _talk(server: str, access: KafkaAccess, connection: socket.socket) -> Obstacle | None:
    connection.sendall(_QUESTION)
    start = connection.recv(8)
    if not start:
        return _breaks_off(server, access)
    if start[0] == _TLS_ALERT and not access.security_protocol.endswith("SSL"):
        return Obstacle(f"{server} speaks TLS, security_protocol is {access.security_protocol}")
    if start[4:8] != struct.pack(">i", _CORRELATION):
        return Obstacle(f"{server} answers, but not as a Kafka broker")
    read_exactly(connection, struct.unpack(">i", start[:4])[0] - 4)
    login(connection, access, server.rpartition(":")[0])
    return None


def timed_out(server: str) -> str:
    """Nothing came back: what drops packets without an answer is a firewall, or in Kubernetes a NetworkPolicy."""
    port = server.rpartition(":")[2]
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return f"connection timed out; does a NetworkPolicy of this namespace allow egress to port {port}?"
    return f"connection timed out; does a firewall or security group allow port {port}?"


def _breaks_off(server: str, access: KafkaAccess) -> Obstacle:
    """Another protocol, or a proxy whose broker is not there yet."""
    encrypted = access.security_protocol.endswith("SSL")
    guess = "speaks no TLS" if encrypted else "wants TLS"
    text = (
        f"{server} closes the connection at once: perhaps it {guess}, security_protocol is {access.security_protocol}"
    )
    return Obstacle(text, lasting=False)


def _distrust(access: KafkaAccess, error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case code if code == _EXPIRED:
            return "the broker's certificate has expired"
        case code if code == _NOT_YET_VALID:
            return "the broker's certificate is not valid yet"
        case code if code in _OTHER_NAME:
            return f"the broker's certificate is for another name: {error.verify_message} (ssl_check_hostname)"
        case _:
            trusted = access.ssl_ca_file or "the system's authorities"
            return f"the broker's certificate is not trusted by {trusted} (ssl_ca_file): {error.verify_message}"


def _refusal(access: KafkaAccess, error: ssl.SSLError) -> str:
    """What the other side of the handshake said."""
    reason = (error.reason or "").lower()
    if "alert" in reason:
        what = f"certificate in {access.ssl_cert_file}" if access.ssl_cert_file else "client without a certificate"
        return f"the broker refuses the {what} (ssl_cert_file): {reason.replace('_', ' ')}"
    if not reason or "wrong_version" in reason or "eof" in reason:
        return f"the port speaks no TLS, security_protocol is {access.security_protocol}"
    return f"no TLS connection: {reason.replace('_', ' ')}"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
