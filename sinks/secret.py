"""Secrets: read from the environment or a file, never from the configuration, never printed."""

import os
from pathlib import Path


class SecretError(ValueError):
    """A secret is named in the configuration but cannot be read. Worth a retry only after a person acts."""


class Secret(str):
    """A string whose `repr` hides it, so that a traceback or a logged dict does not tell it.

    `str()` and formatting give the value: clients need it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def read_secret(setting: str, env: str | None, file: Path | None) -> Secret:
    """The secret of `setting`, from `file` if given, else from the environment variable `env`.

    Surrounding white space is dropped: an editor adds a newline to a secret file. It is read at each call,
    so that a rotated file takes effect.

    Raises SecretError, naming the setting and the place but never the content.
    """
    if file is not None:
        try:
            value = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            # `from None`: a decode error carries the bytes of the file.
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
    """The same for a secret that goes into an HTTP header, which takes one line of ASCII.

    Raises SecretError: http.client's own error would tell the value.
    """
    secret = read_secret(setting, env, file)
    if not secret.isascii() or not secret.isprintable():
        raise SecretError(f"{setting}: {file or f'environment variable {env}'} holds more than one line of ASCII")
    return secret


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or "I/O error" if isinstance(error, OSError) else "not UTF-8 text"
