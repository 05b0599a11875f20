"""The webhook sink: every change of an incident as signed JSON to an address of the user.

    POST <url>
    Idempotency-Key: <incident>/<seq>
    X-Flinkwatch-Timestamp: <epoch seconds>
    X-Flinkwatch-Signature: v1=<hex HMAC-SHA256 of "v1:<timestamp>:<body>">

    {"version": 1, "key": "<incident>/<seq>", "transition": {…}, "url": "<page of the incident>",
     "flink_ui_url": "<page of the job>"}

`url` needs sinks.web.external_url, `flink_ui_url` needs sinks.flink_ui_url. An overview has these two fields in the
place of `transition`:

    {"version": 1, "key": "~overview/<schedule>/<epoch ms>/1", "overview": {…}, "markdown": "# Flink incidents …"}

The receiver must compute the signature over the received bytes, compare it in constant time and refuse old timestamps.
A repeated request has the same key. While the receiver is not available, only an incident's newest change is kept.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sinks.contract.link_templates import NO_FLINK_UI, flink_ui_url
from sinks.contract.outcome import Outcome, Refused
from sinks.contract.overview import ScheduledOverview
from sinks.contract.overview_markdown import scheduled_markdown
from sinks.contract.sink import Notification, Sink, Traits
from sinks.contract.site_links import incident_url
from sinks.integrations.http_post import bearer, post_json
from sinks.integrations.shared_settings import MinSeverity, Timeout, TokenEnv, file_with
from sinks.secret import Secret, SecretError, read_secret


class WebhookConfig(BaseModel):
    """A receiver of your own."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(
        default=False, description="Whether to send every change of an incident to a webhook. Needs `url`."
    )
    url: str = Field(
        default="", pattern=r"^(https?://[^\s/]+\S*)?$", description="Address to which the JSON is sent with POST."
    )
    secret_env: str | None = Field(
        default=None,
        description="Environment variable with the key of the signature. Without a key, requests are not signed.",
    )
    secret_file: Path | None = file_with("the key of the signature", "secret_env")
    token_env: TokenEnv = None
    token_file: Path | None = file_with("the Bearer token")
    min_severity: MinSeverity = "info"
    timeout: Timeout = 10_000

    @model_validator(mode="after")
    def _url_is_needed(self) -> Self:
        if self.enabled and not self.url:
            raise ValueError("url is needed when enabled")
        return self


class WebhookSink(Sink):
    def __init__(
        self,
        config: WebhookConfig,
        external_url: str = "",
        flink_ui_url: Mapping[str, str] = NO_FLINK_UI,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._flink_ui_url = flink_ui_url
        self._external_url = external_url
        self._wall = wall

    @property
    def traits(self) -> Traits:
        """Receivers recognize a repeated request by its key."""
        return Traits(min_severity=self._config.min_severity)

    def check(self) -> None:
        self._headers("", b"")

    def send(self, notification: Notification) -> Outcome:
        transition = notification.transition
        key = f"{transition.incident}/{transition.seq}"
        body = msgspec.json.encode({"version": 1, "key": key, **self._content(notification)})
        try:
            headers = self._headers(key, body)
        except SecretError as error:
            return Refused("no_secret", str(error), "setup", "authError")
        return post_json(self._config.url, body, headers, self._config.timeout / 1000)

    def _content(self, notification: Notification) -> dict[str, object]:
        if isinstance(notification.summary, ScheduledOverview):
            text = scheduled_markdown(notification.summary, self._external_url)
            return {"overview": notification.summary.found, "markdown": text}
        transition = notification.transition
        links = {
            "url": incident_url(self._external_url, transition.incident),
            "flink_ui_url": flink_ui_url(self._flink_ui_url, transition),
        }
        return {"transition": transition, **{name: address for name, address in links.items() if address}}

    def _headers(self, key: str, body: bytes) -> dict[str, str]:
        timestamp = str(int(self._wall()))
        headers = {"Idempotency-Key": key, "X-Flinkwatch-Timestamp": timestamp}
        config = self._config
        if config.secret_env is not None or config.secret_file is not None:
            secret = read_secret("secret", config.secret_env, config.secret_file)
            headers["X-Flinkwatch-Signature"] = signature(secret, timestamp, body)
        return headers | bearer(config.token_env, config.token_file)


def signature(secret: Secret, timestamp: str, body: bytes) -> str:
    """The signature of a request, which the receiver must compute too."""
    return "v1=" + hmac.new(secret.encode(), b"v1:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()
