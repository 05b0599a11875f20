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
from logging.handlers import BufferingHandler
from typing import NamedTuple

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
from sinks.secret import SecretError

_TIMEOUT_S = 3.0
# A proxy without a broker behind it closes at once, a broker waits for the first request.
_CLOSED_UNASKED_S = 0.5
# A wrong password that is tried again and again may lock the user out.
_ONE_ATTEMPT = {"reconnect_backoff_ms": 60_000, "reconnect_backoff_max_ms": 60_000}
_CLIENT_LOG = logging.getLogger("kafka.net")
_one_at_a_time = threading.Lock()
# By OpenSSL's code of the verification.
_OTHER_NAME = "is for another name (ssl_check_hostname)"
_CERTIFICATE = {9: "is not valid yet", 10: "has expired", 62: _OTHER_NAME, 64: _OTHER_NAME}


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
    context = _tls_context(access) if access.security_protocol.endswith("SSL") else None
    found = []
    for server in access.bootstrap_servers.split(","):
        obstacle = _ask(access, server, context)
        if obstacle is None:
            return []
        found.append(obstacle)
    return sorted(found, key=lambda o: not o.lasting)


def _ask(access: KafkaAccess, server: str, context: ssl.SSLContext | None) -> Obstacle | None:
    if problem := unreachable(server):
        return Obstacle(problem, lasting=False)
    alone = access.model_copy(update={"bootstrap_servers": server})
    try:
        _connect(server, context).close()
        with _error_of_client(), closing(clients.admin(alone, connect_ms=int(_TIMEOUT_S * 1000), **_ONE_ATTEMPT)):
            return None
    except SecretError:
        raise
    except (KafkaError, ssl.SSLError) as error:
        return _refused(access, server, context, error)
    except (ConnectionResetError, BrokenPipeError):
        return _closes(access, server)
    except Exception as error:  # noqa: BLE001 - a port that is no broker may answer with anything
        return Obstacle(f"{server}: {_line(error)}", lasting=False)


def unreachable(server: str) -> str | None:
    """Why no connection to `server` can be opened; None if one can."""
    try:
        _connect(server, None).close()
    except socket.gaierror:
        return f"{server}: there is no host of this name"
    except TimeoutError:
        return f"{server}: {_timed_out(server)}"
    except (OSError, OverflowError, UnicodeError) as error:
        return f"{server}: {getattr(error, 'strerror', None) or error}"
    return None


def _connect(server: str, context: ssl.SSLContext | None) -> socket.socket:
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    plain = socket.create_connection((host, int(port)), _TIMEOUT_S)
    try:
        return plain if context is None else context.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise


def _tls_context(access: KafkaAccess) -> ssl.SSLContext:
    """As kafka-python makes it from `access`, with errors that name the file. Raises SecretError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = access.ssl_check_hostname
    if access.ssl_ca_file is None:
        context.load_default_certs()
    else:
        with _reading(f"ssl_ca_file: {access.ssl_ca_file}", "holds no certificate in PEM"):
            context.load_verify_locations(access.ssl_ca_file)
    if access.ssl_cert_file is not None and access.ssl_key_file is not None:
        files = f"ssl_cert_file, ssl_key_file: {access.ssl_cert_file} with {access.ssl_key_file}"
        with _reading(files, "are no certificate and its key, or ssl_key_password is wrong"):
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(access.ssl_cert_file, access.ssl_key_file, password=access.key_password() or "")
    return context


@contextmanager
def _reading(what: str, otherwise: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError as error:
        reason = (error.reason or "not PEM").lower().replace("_", " ")
        raise SecretError(f"{what} {otherwise}: {reason}") from None
    except OSError as error:
        raise SecretError(f"{what} cannot be read: {error.strerror or error}") from None


@contextmanager
def _error_of_client() -> Iterator[None]:
    """Raises the first error that a client logs of its connections, instead of its own at the end of its time."""
    log = BufferingHandler(1_000)
    with _one_at_a_time:
        _CLIENT_LOG.addHandler(log)
        _CLIENT_LOG.setLevel(logging.WARNING)
        _CLIENT_LOG.propagate = False
        try:
            yield
        except KafkaError as error:
            logged = (each for record in log.buffer for each in record.args or () if isinstance(each, KafkaError))
            first = next(logged, error)
            # kafka-python wraps a TLS error, which gives the reason.
            raise next((cause for cause in first.args if isinstance(cause, ssl.SSLError)), first) from error
        finally:
            _CLIENT_LOG.propagate = True
            _CLIENT_LOG.setLevel(logging.NOTSET)
            _CLIENT_LOG.removeHandler(log)


def _refused(
    access: KafkaAccess, server: str, context: ssl.SSLContext | None, error: KafkaError | ssl.SSLError
) -> Obstacle:
    protocol = f"security_protocol is {access.security_protocol}"
    match error:
        case ssl.SSLError():
            return Obstacle(f"{server}: {_refused_by_tls(access, error)}")
        # The alert that a TLS port sends to plaintext may be read as a frame before the connection ends.
        case KafkaConnectionError() | KafkaProtocolError() if context is None and _speaks_tls(server):
            return Obstacle(f"{server} speaks TLS, {protocol}")
        case KafkaConnectionError() if _closes_unasked(server, context):
            return _closes(access, server)
        case IllegalSaslStateError():
            text = f"takes no login, {protocol}"
        case KafkaConnectionError() | SaslAuthenticationFailedError() | UnsupportedSaslMechanismError():
            # A broker closes the connection together with its refusal: kafka-python may not have read that.
            text = f"{_refused_login(access)}: {_line(error)}"
        case KafkaProtocolError():
            text = f"answers, but not as a Kafka broker: {_line(error)}"
        case _:
            text = f"takes connections, but does not answer as a Kafka broker: {_line(error)}"
            return Obstacle(f"{server} {text}", lasting=False)
    return Obstacle(f"{server} {text}")


def _refused_login(access: KafkaAccess) -> str:
    if access.sasl_mechanism is None:
        return "wants a login, which needs sasl_mechanism, sasl_username and a password, or is no Kafka broker"
    place = access.sasl_password_file or f"environment variable {access.sasl_password_env}"
    return (
        f"refuses the login of {access.sasl_username} by {access.sasl_mechanism}: wrong sasl_username, or wrong "
        f"password in {place}, or it takes no login by {access.sasl_mechanism}"
    )


def _refused_by_tls(access: KafkaAccess, error: ssl.SSLError) -> str:
    reason = (error.reason or "").lower().replace("_", " ")
    if isinstance(error, ssl.SSLCertVerificationError):
        not_trusted = f"is not trusted by {access.ssl_ca_file or 'the authorities of the system'} (ssl_ca_file)"
        return f"the broker's certificate {_CERTIFICATE.get(error.verify_code, not_trusted)}: {error.verify_message}"
    if "alert" in reason:
        what = f"certificate in {access.ssl_cert_file}" if access.ssl_cert_file else "client without a certificate"
        return f"the broker refuses the {what} (ssl_cert_file): {reason}"
    if not reason or "wrong version" in reason or "eof" in reason:
        return f"the port speaks no TLS, security_protocol is {access.security_protocol}"
    return f"no TLS connection: {reason}"


def _speaks_tls(server: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is sent over it.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _connect(server, context).close()
    except OSError as error:
        return "ALERT" in (getattr(error, "reason", None) or "")
    return True


def _closes_unasked(server: str, context: ssl.SSLContext | None) -> bool:
    try:
        with _connect(server, context) as connection:
            connection.settimeout(_CLOSED_UNASKED_S)
            return not connection.recv(1)
    except OSError as error:
        return not isinstance(error, TimeoutError)


def _closes(access: KafkaAccess, server: str) -> Obstacle:
    """Another protocol, or a proxy whose broker is not there yet."""
    guess = "speaks no TLS" if access.security_protocol.endswith("SSL") else "wants TLS"
    text = f"closes the connection at once: perhaps it {guess}, security_protocol is {access.security_protocol}"
    return Obstacle(f"{server} {text}", lasting=False)


def _timed_out(server: str) -> str:
    """Nothing came back: what drops packets without an answer is a firewall, or in Kubernetes a NetworkPolicy."""
    port = server.rpartition(":")[2]
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return f"connection timed out; does a NetworkPolicy of this namespace allow egress to port {port}?"
    return f"connection timed out; does a firewall or security group allow port {port}?"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
