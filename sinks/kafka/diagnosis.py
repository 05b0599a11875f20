"""Why Kafka cannot be reached, in one line that holds no secret.

kafka-python tries again until its time is up, and then raises only that it could not bootstrap. So each broker is asked
once more here: by a connection and a TLS handshake of our own, and then by a client, whose log names the reason.
"""

import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from kafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.tls import tls_context
from sinks.secret import SecretError

_TIMEOUT_S = 3.0
# A proxy without a broker behind it closes at once, a broker waits for the first request.
_CLOSED_UNASKED_S = 0.5
# A wrong password that is tried again and again may lock the user out.
_ONE_ATTEMPT = {"reconnect_backoff_ms": 60_000, "reconnect_backoff_max_ms": 60_000}
_CLIENT_LOG = logging.getLogger("kafka.net")
_one_at_a_time = threading.Lock()
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_NAME = (62, 64)


class Obstacle(NamedTuple):
    """Why one broker cannot be used. If it is `lasting`, waiting does not help."""

    text: str
    lasting: bool = True


def lasting_obstacle(access: KafkaAccess) -> str | None:
    """What is wrong with certificates, keys, protocol or login; None if a broker answers, or may answer later."""
    try:
        return next((o.text for o in _obstacles(access) if o.lasting), None)
    except SecretError as error:
        return str(error)


def explain(access: KafkaAccess, error: KafkaError | SecretError) -> str:
    """What an error of a Kafka client means for a person who runs flinkwatch. Raises nothing."""
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


@contextmanager
def explained(access: KafkaAccess, raised: type[Exception], what: str = "") -> Iterator[None]:
    """Turns an error of a Kafka client, and of a secret, into `raised` with one line for a person."""
    try:
        yield
    except (KafkaError, SecretError) as error:
        raise raised(f"{what}kafka.access: {explain(access, error)}") from error


def _obstacles(access: KafkaAccess) -> list[Obstacle]:
    """Empty as soon as one broker answers, else an obstacle for each, lasting ones first. Raises SecretError."""
    context = tls_context(access) if access.security_protocol.endswith("SSL") else None
    found = []
    for server in access.bootstrap_servers.split(","):
        obstacle = _ask(access, server, context)
        if obstacle is None:
            return []
        found.append(obstacle)
    return sorted(found, key=lambda o: not o.lasting)


def _ask(access: KafkaAccess, server: str, context: ssl.SSLContext | None) -> Obstacle | None:
    try:
        _connect(server, context).close()
    except (OSError, OverflowError, UnicodeError) as error:
        return _no_connection(access, server, error)
    alone = access.model_copy(update={"bootstrap_servers": server})
    with _errors_of_client() as errors:
        try:
            with closing(clients.admin(alone, connect_ms=int(_TIMEOUT_S * 1000), **_ONE_ATTEMPT)):
                return None
        except SecretError:
            raise
        except Exception as error:  # noqa: BLE001 - a port that is no broker may answer with anything
            reason: Exception = errors[0] if errors else error
    return _no_client(access, server, context, reason)


def _connect(server: str, context: ssl.SSLContext | None) -> socket.socket:
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    plain = socket.create_connection((host, int(port)), _TIMEOUT_S)
    try:
        return plain if context is None else context.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise


@contextmanager
def _errors_of_client() -> Iterator[list[KafkaError]]:
    """What clients log of their connections in the meantime; the product's log leaves it out."""
    found: list[KafkaError] = []
    handler = _Collect(found)
    with _one_at_a_time:
        _CLIENT_LOG.addHandler(handler)
        _CLIENT_LOG.setLevel(logging.WARNING)
        _CLIENT_LOG.propagate = False
        try:
            yield found
        finally:
            _CLIENT_LOG.propagate = True
            _CLIENT_LOG.setLevel(logging.NOTSET)
            _CLIENT_LOG.removeHandler(handler)


class _Collect(logging.Handler):
    def __init__(self, found: list[KafkaError]) -> None:
        super().__init__()
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        arguments: Any = record.args or ()
        self._found += [each for each in arguments if isinstance(each, KafkaError)]


def _no_connection(access: KafkaAccess, server: str, error: Exception) -> Obstacle:
    match error:
        case ssl.SSLCertVerificationError():
            return Obstacle(f"{server}: {_distrust(access, error)}")
        case ssl.SSLError():
            return Obstacle(f"{server}: {_refusal(access, error)}")
        case ConnectionResetError() | BrokenPipeError():
            return _closes(server, access)
        case TimeoutError():
            return Obstacle(f"{server}: {timed_out(server)}", lasting=False)
        case _:
            return Obstacle(f"{server}: {getattr(error, 'strerror', None) or error}", lasting=False)


def _no_client(access: KafkaAccess, server: str, context: ssl.SSLContext | None, error: Exception) -> Obstacle:
    """The port can be connected to, and kafka-python fails there with `error`."""
    cause = error.args[0] if error.args else None
    match error:
        case KafkaConnectionError() if isinstance(cause, ssl.SSLError):
            return Obstacle(f"{server}: {_refusal(access, cause)}")
        case KafkaConnectionError():
            return _disconnected(access, server, context, error)
        case IllegalSaslStateError():
            return Obstacle(f"{server} takes no login, security_protocol is {access.security_protocol}")
        case SaslAuthenticationFailedError() | UnsupportedSaslMechanismError():
            return Obstacle(f"{server} {_login_refused(access, error)}")
        case KafkaProtocolError():
            return Obstacle(f"{server} answers, but not as a Kafka broker: {_line(error)}")
        case _:
            text = f"{server} takes connections, but does not answer as a Kafka broker: {_line(error)}"
            return Obstacle(text, lasting=False)


def _disconnected(access: KafkaAccess, server: str, context: ssl.SSLContext | None, error: Exception) -> Obstacle:
    """A broker closes the connection together with its refusal, and kafka-python then logs only that it was closed."""
    if context is None and _speaks_tls(server):
        return Obstacle(f"{server} speaks TLS, security_protocol is {access.security_protocol}")
    if _closes_unasked(server, context):
        return _closes(server, access)
    if access.sasl_mechanism is not None:
        return Obstacle(f"{server} {_login_refused(access, error)}")
    wants = "wants a login, which needs sasl_mechanism, sasl_username and a password"
    return Obstacle(f"{server} {wants}, or is no Kafka broker: {_line(error)}")


def _login_refused(access: KafkaAccess, error: Exception) -> str:
    place = access.sasl_password_file or f"environment variable {access.sasl_password_env}"
    return (
        f"refuses the login of {access.sasl_username} by {access.sasl_mechanism}: wrong sasl_username, or wrong "
        f"password in {place}, or it takes no login by {access.sasl_mechanism}: {_line(error)}"
    )


def _speaks_tls(server: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is sent over it.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _connect(server, context).close()
    except ssl.SSLError as error:
        return "alert" in (error.reason or "").lower()
    except OSError:
        return False
    return True


def _closes_unasked(server: str, context: ssl.SSLContext | None) -> bool:
    try:
        with _connect(server, context) as connection:
            connection.settimeout(_CLOSED_UNASKED_S)
            return not connection.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True


def timed_out(server: str) -> str:
    """Nothing came back: what drops packets without an answer is a firewall, or in Kubernetes a NetworkPolicy."""
    port = server.rpartition(":")[2]
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return f"connection timed out; does a NetworkPolicy of this namespace allow egress to port {port}?"
    return f"connection timed out; does a firewall or security group allow port {port}?"


def _closes(server: str, access: KafkaAccess) -> Obstacle:
    """Another protocol, or a proxy whose broker is not there yet."""
    guess = "speaks no TLS" if access.security_protocol.endswith("SSL") else "wants TLS"
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
    """Why the other side ended the handshake."""
    reason = (error.reason or "").lower()
    if "alert" in reason:
        what = f"certificate in {access.ssl_cert_file}" if access.ssl_cert_file else "client without a certificate"
        return f"the broker refuses the {what} (ssl_cert_file): {reason.replace('_', ' ')}"
    if not reason or "wrong_version" in reason or "eof" in reason:
        return f"the port speaks no TLS, security_protocol is {access.security_protocol}"
    return f"no TLS connection: {reason.replace('_', ' ')}"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
