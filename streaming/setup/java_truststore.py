"""Lets Java trust what this machine trusts.

A Java from a package index or a download brings its own list of certificates: a company's own is not on it.
Runs before anything is installed: standard library only.
"""

import hashlib
import os
import ssl
import struct
from pathlib import Path

PASSWORD = "changeit"  # noqa: S105  # nosec B105 - a checksum's salt: the store holds public certificates
VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def java_options(folder: Path) -> list[str]:
    """Options that make a JVM trust the machine's certificates; none where the machine names none."""
    certificates = machine_certificates()
    if not certificates:
        return []
    store = folder / "trusted.jks"
    store.write_bytes(key_store(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    ]


def machine_certificates() -> list[bytes]:
    """The certificates of the system's bundle and of those that the environment names, in DER."""
    default = ssl.get_default_verify_paths().cafile
    names = [*(os.environ.get(variable) for variable in VARIABLES), default, *SYSTEM_BUNDLES]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in names:
        if name and Path(name).is_file():
            try:
                context.load_verify_locations(name)
            except (ssl.SSLError, OSError):
                continue
    return context.get_ca_certs(binary_form=True)


def key_store(certificates: list[bytes]) -> bytes:
    """A Java key store with these certificates, as `keytool -importcert` writes one, but all at once."""
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", 2) + _text(f"machine-{number}") + struct.pack(">Q", 0)
        body += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    salt = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    return body + hashlib.sha1(salt + body, usedforsecurity=False).digest()


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded
