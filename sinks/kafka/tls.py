"""The TLS side of kafka.access, as kafka-python has it, with errors that name the file."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from sinks.kafka.access import KafkaAccess
from sinks.secret import SecretError


def tls_context(access: KafkaAccess) -> ssl.SSLContext:
    """Authorities, certificate and key of `access`, read from their files. Raises SecretError."""
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
