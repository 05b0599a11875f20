"""Certificates and keys in PEM, by content: what Spark's Kafka client is given."""

import binascii
from pathlib import Path

from sinks.secret import Secret, SecretError, read_secret

# The object identifier 1.2.840.113549.1.5.13, as it is encoded in a key.
_PBES2 = bytes.fromhex("2a864886f70d01050d")


def pem(setting: str, file: Path) -> Secret:
    """The text of a PEM file. Raises SecretError."""
    content = read_secret(setting.removesuffix("_file"), None, file)
    if "-----BEGIN " not in content:
        raise SecretError(f"{setting}: {file} is not a PEM file")
    return content


def private_key(file: Path) -> Secret:
    """The text of a private key in a form that Java reads. Raises SecretError with the command that makes one."""
    content = pem("ssl_key_file", file)
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
