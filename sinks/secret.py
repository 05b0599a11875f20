"""Secrets: read from the environment or a file, never from the configuration, never printed."""

import os
from pathlib import Path


class SecretError(ValueError):
    """A configured secret cannot be read. A retry helps only after a person has fixed it."""


class Secret(str):
    """A string whose `repr` hides it, so that it does not appear in tracebacks and logged dicts.

    `str()` and formatting return the value, because clients need it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def read_secret(setting: str, env: str | None, file: Path | None) -> Secret:
    """The secret of `setting`, from `file` if given, else from the environment variable `env`.

    Surrounding white space is removed, because editors add a newline at the end of a file. The secret is read at each
    call, so that a rotated file takes effect.

    Raises SecretError, which names the setting and the source but never the value.
    """
    if file is not None:
        try:
            value = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            # `from None`, because a decode error contains the bytes of the file.
            raise SecretError(f"{setting}_file: cannot read {file}: {_reason(error)}") from None
        if not value:
            raise SecretError(f"{setting}_file: {file} is empty")
        return Secret(value)
    if env is None:
        raise SecretError(f"{setting}: set {setting}_env or {setting}_file")
    value = os.environ.get(env, "").strip()
    if not value:
        raise SecretError(f"{setting}_env: environment variable {env} is not set")
    return Secret(value)


def read_header_secret(setting: str, env: str | None, file: Path | None) -> Secret:
    """The same for a secret that is sent in an HTTP header, which must be one line of ASCII.

    Raises SecretError here, because http.client's own error would contain the value.
    """
    secret = read_secret(setting, env, file)
    if not secret.isascii() or not secret.isprintable():
        raise SecretError(f"{setting}: {file or f'environment variable {env}'} is not one line of ASCII")
    return secret


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or "I/O error" if isinstance(error, OSError) else "not UTF-8 text"
