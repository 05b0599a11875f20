"""A login as kafka-python does it, for the answer: a broker closes the connection together with its refusal, and
kafka-python then says no more than that it was disconnected.
"""

import socket
import struct

from kafka.net.sasl import get_sasl_mechanism

from sinks.kafka.access import KafkaAccess, client_options

_HANDSHAKE, _AUTHENTICATE = 17, 36
_UNKNOWN_MECHANISM, _NO_LOGIN_HERE = 33, 34
_MOST = 65_536


class LoginRefusedError(Exception):
    """The broker does not let us in; the message says why."""


def login(connection: socket.socket, access: KafkaAccess, host: str) -> None:
    """Log in over a connection on which nothing but ApiVersions was asked.

    Without a login in `access`: see that none is wanted. Raises LoginRefusedError, OSError, SecretError.
    """
    code, rest = _ask(connection, _HANDSHAKE, 1, _string(access.sasl_mechanism or "PLAIN"))
    if access.sasl_mechanism is None:
        if code != _NO_LOGIN_HERE:
            raise LoginRefusedError("wants a login, which needs sasl_mechanism, sasl_username and a password")
        return
    if code == _NO_LOGIN_HERE:
        raise LoginRefusedError(f"takes no login, security_protocol is {access.security_protocol}")
    if code == _UNKNOWN_MECHANISM:
        raise LoginRefusedError(f"takes no login by {access.sasl_mechanism}, but by {', '.join(_strings(rest))}")
    mechanism = get_sasl_mechanism(access.sasl_mechanism)(host=host, **client_options(access))
    while not mechanism.is_done():
        token = mechanism.auth_bytes()
        code, rest = _ask(connection, _AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        if code:
            place = access.sasl_password_file or f"environment variable {access.sasl_password_env}"
            raise LoginRefusedError(
                f"refuses the login of {access.sasl_username} by {access.sasl_mechanism}: "
                f"wrong sasl_username, or wrong password in {place}"
            )
        # Before the token stands a message, which is null.
        mechanism.receive(rest[6:])


def _ask(connection: socket.socket, key: int, version: int, body: bytes) -> tuple[int, bytes]:
    """The error code of a request's answer, and what follows it. Raises ConnectionError when there is none."""
    head = struct.pack(">hhih", key, version, key, -1)
    connection.sendall(struct.pack(">i", len(head + body)) + head + body)
    size = struct.unpack(">i", read_exactly(connection, 4))[0]
    # The correlation id comes first.
    answer = read_exactly(connection, min(size, _MOST))[4:]
    return struct.unpack_from(">h", answer)[0], answer[2:]


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """The next bytes. Raises ConnectionError when the other side closes before."""
    read = b""
    while len(read) < size:
        part = connection.recv(size - len(read))
        if not part:
            raise ConnectionError("the connection was closed during the login")
        read += part
    return read


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _strings(array: bytes) -> list[str]:
    found, at = [], 4
    for _ in range(struct.unpack_from(">i", array)[0]):
        size = struct.unpack_from(">h", array, at)[0]
        found.append(array[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return found
