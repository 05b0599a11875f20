"""A webhook of the user's own: every change of an incident as JSON, signed.

    POST <url>
    Idempotency-Key: <incident>/<seq>
    X-Flinkwatch-Timestamp: <epoch seconds>
    X-Flinkwatch-Signature: v1=<hex HMAC-SHA256 of "v1:<timestamp>:<body>">

    {"version": 1, "key": "<incident>/<seq>", "transition": {…}}

The receiver computes the signature over the bytes it got, compares in constant time and refuses old timestamps. What
is sent twice has the same key. While the receiver is away only the newest change of an incident is kept for it.
"""

import hashlib
import hmac
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.incident import Severity
from detectors.values.durations import Duration
from sinks.contract.outcome import Outcome, Refused
from sinks.contract.sink import Notification, Sink, Traits
from sinks.integrations.http_post import post_json
from sinks.secret import Secret, SecretError, read_header_secret, read_secret

ADDRESS = r"^(https?://[^\s/]+\S*)?$"


class WebhookConfig(BaseModel):
    """A receiver of the user's own."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(default=False, description="Send every change of an incident to a webhook; needs a url.")
    url: str = Field(default="", pattern=ADDRESS, description="Address that takes a POST of JSON.")
    secret_env: str | None = Field(
        default=None,
        description="Environment variable that holds the key of the signature; without one nothing is signed.",
    )
    secret_file: Path | None = Field(
        default=None, description="File that holds that key, read at each call; wins over the variable."
    )
    token_env: str | None = Field(
        default=None, description="Environment variable that holds a token, sent as Authorization: Bearer."
    )
    token_file: Path | None = Field(
        default=None, description="File that holds that token, read at each call; wins over the variable."
    )
    min_severity: Severity = Field(default="info", description="Incidents below this are not sent until they grow.")
    timeout: Duration = Field(
        default=10_000, ge=100, le=120_000, description="How long to wait for an answer; then it is sent again."
    )

    @model_validator(mode="after")
    def _url_is_needed(self) -> Self:
        if self.enabled and not self.url:
            raise ValueError("url is needed when enabled")
        return self


class WebhookSink(Sink):
    """See the module."""

    def __init__(self, config: WebhookConfig, wall: Callable[[], float] = time.time) -> None:
        self._config = config
        self._wall = wall

    @property
    def traits(self) -> Traits:
        """Receivers know a repeat by its key."""
        return Traits(min_severity=self._config.min_severity)

    def check(self) -> None:
        """Raises SecretError when key or token are named but cannot be read."""
        self._headers("", b"")

    def send(self, notification: Notification) -> Outcome:
        transition = notification.transition
        key = f"{transition.incident}/{transition.seq}"
        body = msgspec.json.encode({"version": 1, "key": key, "transition": transition})
        try:
            headers = self._headers(key, body)
        except SecretError as error:
            return Refused("no_secret", str(error), "setup", "authError")
        return post_json(self._config.url, body, headers, self._config.timeout / 1000)

    def _headers(self, key: str, body: bytes) -> dict[str, str]:
        timestamp = str(int(self._wall()))
        headers = {"Idempotency-Key": key, "X-Flinkwatch-Timestamp": timestamp}
        config = self._config
        if config.secret_env is not None or config.secret_file is not None:
            secret = read_secret("secret", config.secret_env, config.secret_file)
            headers["X-Flinkwatch-Signature"] = signature(secret, timestamp, body)
        return headers | bearer(config.token_env, config.token_file)


def signature(secret: Secret, timestamp: str, body: bytes) -> str:
    """What the receiver must compute, too."""
    return "v1=" + hmac.new(secret.encode(), b"v1:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()


def bearer(env: str | None, file: Path | None) -> dict[str, str]:
    """The header of a token, if one is named. Raises SecretError."""
    if env is None and file is None:
        return {}
    return {"Authorization": f"Bearer {read_header_secret('token', env, file)}"}
