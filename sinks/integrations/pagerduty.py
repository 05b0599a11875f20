"""The PagerDuty sink (Events API v2). The incident's ID is the dedup_key, so sending an event twice changes nothing."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from detectors.events.identity import EXERCISE
from detectors.incident import Severity, Transition
from sinks.contract.outcome import Outcome, Refused
from sinks.contract.sink import Notification, Rate, Sink, Traits
from sinks.contract.site_links import incident_url
from sinks.contract.wording import silence_words
from sinks.integrations.http_post import post_json
from sinks.integrations.shared_settings import Timeout, file_with
from sinks.secret import Secret, SecretError, read_secret

_SUMMARY_LIMIT = 1024
# PagerDuty: 120 events a minute for an integration key.
_RATE = Rate(1.8, 20)


class PagerDutyConfig(BaseModel):
    """Events for a PagerDuty service."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(default=False, description="Whether to send incidents to PagerDuty. Needs a routing key.")
    routing_key_env: str = Field(
        default="PAGERDUTY_ROUTING_KEY",
        description="Environment variable with the integration key of an Events API v2 integration.",
    )
    routing_key_file: Path | None = file_with("the integration key", "routing_key_env")
    min_severity: Severity = Field(
        default="critical",
        description="Lowest severity that is sent, because an event may wake people. Other incidents are sent once "
        "they reach it.",
    )
    timeout: Timeout = 10_000
    url: str = Field(
        default="https://events.pagerduty.com/v2/enqueue",
        pattern=r"^https?://[^\s/]+\S*$",
        description="Address of the Events API. For the EU region: https://events.eu.pagerduty.com/v2/enqueue.",
    )


class PagerDutySink(Sink):
    def __init__(self, config: PagerDutyConfig, external_url: str = "") -> None:
        self._config = config
        self._external_url = external_url

    @property
    def traits(self) -> Traits:
        """An incident that has already resolved wakes no one."""
        return Traits(notifies_already_resolved=False, min_severity=self._config.min_severity, post_rate=_RATE)

    def check(self) -> None:
        self._key()

    def send(self, notification: Notification) -> Outcome:
        """Send a trigger event, which also updates an open alert, or a resolve event."""
        try:
            # A plain str: msgspec encodes no subclass.
            body = msgspec.json.encode(event(notification.transition, str(self._key()), self._external_url))
        except SecretError as error:
            return Refused("no_secret", str(error), "setup", "authError")
        return post_json(self._config.url, body, {}, self._config.timeout / 1000)

    def _key(self) -> Secret:
        return read_secret("routing_key", self._config.routing_key_env, self._config.routing_key_file)


def _summary(transition: Transition) -> str:
    exercise = "EXERCISE: " if transition.cluster.startswith(EXERCISE) else ""
    return f"{exercise}{transition.cause} on {transition.job_name or transition.cluster}: {transition.summary}"


def event(transition: Transition, routing_key: str, external_url: str = "") -> dict[str, Any]:
    head = {"routing_key": routing_key, "dedup_key": transition.incident, "client": "flinkwatch"}
    if transition.transition == "resolved":
        return head | {"event_action": "resolve"}
    opened = datetime.fromtimestamp((transition.opened_at or transition.at) / 1000, tz=UTC)
    details = {
        "summary": transition.summary,
        "change": transition.reason,
        "silence": silence_words(transition),
        "advice": transition.advice,
        "evidence": [one.text for one in transition.evidence[:5]],
        "config": transition.config,
    }
    payload = {
        "summary": _summary(transition)[:_SUMMARY_LIMIT],
        "source": transition.cluster or "flinkwatch",
        "severity": transition.severity,
        "timestamp": opened.isoformat(),
        "component": transition.job_name,
        "class": transition.cause,
        "custom_details": details,
    }
    if url := incident_url(external_url, transition.incident):
        head |= {"client_url": url}
    return head | {"event_action": "trigger", "payload": payload}
