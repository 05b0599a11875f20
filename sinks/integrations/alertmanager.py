"""Alertmanager as a sink, so that a team's routing stays where it is: POST /api/v2/alerts.

Alertmanager keeps nothing over a restart and takes an alert for resolved that is not sent again. Therefore everything
open is sent again every `resend_interval`, each time valid for `resolve_timeout`. There is no notification log for it:
each start sends everything open. An alert that is firing when its incident is silenced keeps its labels and gets an
annotation: other labels would make another alert, and resolving it would be wrong.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.incident import Transition
from detectors.values.durations import Duration
from sinks.contract.outcome import Delivered, Outcome, Refused
from sinks.contract.sink import Notification, ResendingSink, Traits
from sinks.contract.site_links import incident_url
from sinks.contract.wording import runbook_url, silence_words
from sinks.integrations.http_post import bearer, post_json
from sinks.integrations.shared_settings import MinSeverity, RunbookBaseUrl, Timeout, TokenEnv, file_with
from sinks.secret import SecretError

_AT_ONCE = 500
_TEXT_LIMIT = 2_000


class AlertmanagerConfig(BaseModel):
    """Alerts for Alertmanager."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(default=False, description="Whether to send incidents to Alertmanager. Needs `urls`.")
    urls: tuple[str, ...] = Field(
        default=(),
        description="Addresses of all Alertmanager instances of a cluster, such as http://alertmanager-0:9093, without "
        "/api/v2/alerts.",
    )
    token_env: TokenEnv = None
    token_file: Path | None = file_with("the Bearer token")
    min_severity: MinSeverity = "info"
    resend_interval: Duration = Field(
        default=60_000,
        ge=1_000,
        le=3_600_000,
        description="Time after which open incidents are sent again, as Prometheus does.",
    )
    resolve_timeout: Duration = Field(
        default=900_000,
        ge=2_000,
        le=86_400_000,
        description="Time after which Alertmanager resolves an alert that was not sent again. It must be longer than a "
        "restart of flinkwatch.",
    )
    runbook_base_url: RunbookBaseUrl = ""
    timeout: Timeout = 10_000

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.enabled and not self.urls:
            raise ValueError("urls is needed when enabled")
        for number, url in enumerate(self.urls):
            # The address is not in the message, because it may contain a password.
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"urls[{number}] is not an http(s) address")
        if self.resolve_timeout < 2 * self.resend_interval:
            raise ValueError("resolve_timeout must be at least twice resend_interval")
        return self


class AlertmanagerSink(ResendingSink):
    def __init__(
        self, config: AlertmanagerConfig, external_url: str = "", wall: Callable[[], float] = time.time
    ) -> None:
        self._config = config
        self._external_url = external_url
        self._wall = wall
        self.resend_s = config.resend_interval / 1000
        self._open: dict[str, bytes] = {}

    @property
    def traits(self) -> Traits:
        """Alerts with the same labels are one alert, and nothing survives a restart."""
        return Traits(keeps_log=False, min_severity=self._config.min_severity)

    def check(self) -> None:
        bearer(self._config.token_env, self._config.token_file)

    def send(self, notification: Notification) -> Outcome:
        """Send one alert. If its labels have changed, the alert with the old labels is resolved."""
        transition = notification.transition
        made = alert(transition, self._config.runbook_base_url, self._external_url)
        before = self._open.get(transition.incident)
        if before is not None and transition.silence is not None:
            made["labels"] = _labels(before)
        alerts = [_ending(before, self._wall())] if before is not None and _labels(before) != made["labels"] else []
        if transition.transition == "resolved":
            ended = min((transition.ended_at or transition.at) / 1000, self._wall())
            alerts.append(made | {"endsAt": _rfc3339(ended)})
        else:
            alerts.append(made | {"endsAt": self._valid_until()})
        outcome = self._post(alerts)
        if isinstance(outcome, Delivered):
            # Encoded, because ten thousand of them then need only a few MB.
            if transition.transition == "resolved":
                self._open.pop(transition.incident, None)
            else:
                self._open[transition.incident] = msgspec.json.encode(made)
        return outcome

    def resend(self) -> Outcome | None:
        """Send all open alerts again, at most 500 in a request."""
        outcome: Outcome | None = None
        encoded = list(self._open.values())
        for first in range(0, len(encoded), _AT_ONCE):
            until = self._valid_until()
            alerts = [msgspec.json.decode(one) | {"endsAt": until} for one in encoded[first : first + _AT_ONCE]]
            outcome = self._post(alerts)
            if not isinstance(outcome, Delivered):
                return outcome
        return outcome

    def release(self, incident: str) -> None:
        self._open.pop(incident, None)

    def _post(self, alerts: list[dict[str, Any]]) -> Outcome:
        """Send to every instance. One success is enough: the others get the alerts with the next resend."""
        try:
            headers = bearer(self._config.token_env, self._config.token_file)
        except SecretError as error:
            return Refused("no_secret", str(error), "setup", "authError")
        body = msgspec.json.encode(alerts)
        outcomes = [
            post_json(f"{url.rstrip('/')}/api/v2/alerts", body, headers, self._config.timeout / 1000)
            for url in self._config.urls
        ]
        return next((one for one in outcomes if isinstance(one, Delivered)), outcomes[0])

    def _valid_until(self) -> str:
        return _rfc3339(self._wall() + self._config.resolve_timeout / 1000)


def alert(transition: Transition, runbook_base_url: str = "", external_url: str = "") -> dict[str, Any]:
    """An incident in the form of Alertmanager's API, without endsAt.

    The labels identify the alert, so everything that may change later, such as the cause, is an annotation.
    """
    labels = {
        "alertname": "FlinkIncident",
        "severity": transition.severity,
        "cluster": transition.cluster,
        "job": transition.job_name,
        "incident": transition.incident,
    }
    forecast = transition.forecast
    annotations = {
        "cause": transition.cause,
        "summary": transition.summary,
        "description": transition.advice,
        "reason": transition.reason,
        "forecast": f"{forecast.what} at {_rfc3339(forecast.at / 1000)}" if forecast is not None else "",
        "silence": silence_words(transition),
        "runbook_url": runbook_url(runbook_base_url, transition.cause),
    }
    url = incident_url(external_url, transition.incident)
    return ({"generatorURL": url} if url else {}) | {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value[:_TEXT_LIMIT] for name, value in annotations.items() if value},
        "startsAt": _rfc3339((transition.opened_at or transition.at) / 1000),
    }


def _labels(encoded: bytes) -> Any:
    return msgspec.json.decode(encoded)["labels"]


def _ending(encoded: bytes, now: float) -> dict[str, Any]:
    ended: dict[str, Any] = msgspec.json.decode(encoded)
    return ended | {"endsAt": _rfc3339(now)}


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
