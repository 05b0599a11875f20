"""The section `sinks` of the configuration."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.values.durations import Duration
from sinks.integrations.alertmanager import AlertmanagerConfig
from sinks.integrations.pagerduty import PagerDutyConfig
from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.webhook import WebhookConfig
from sinks.prometheus.http_server import PrometheusConfig
from sinks.routing import Routing
from sinks.web.site.settings import WebConfig

LIVE = ("routing", "slack.actions.mention")
"""The settings that are reloaded without a restart."""

SLACK = "slack"
"""The receiver of Slack's own channel; others are `slack:<channel>`."""


class Sinks(BaseModel):
    """Where incidents and readings are sent. A change of LIVE applies at once, any other needs a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slack: SlackConfig = Field(default_factory=SlackConfig, description="Messages to Slack channels.")
    prometheus: PrometheusConfig = Field(
        default_factory=PrometheusConfig, description="HTTP server with metrics for Prometheus and health checks."
    )
    web: WebConfig = Field(default_factory=WebConfig, description="Status site: incidents as web pages and as JSON.")
    webhook: WebhookConfig = Field(default_factory=WebhookConfig, description="Signed JSON to a receiver of your own.")
    alertmanager: AlertmanagerConfig = Field(default_factory=AlertmanagerConfig, description="Alerts for Alertmanager.")
    pagerduty: PagerDutyConfig = Field(default_factory=PagerDutyConfig, description="Events for PagerDuty.")
    max_silence: Duration = Field(
        2_592_000_000,
        ge=60_000,
        description="Longest silence that `flinkwatch silence add` and Slack's buttons accept, so that no silence is "
        "forgotten for years.",
    )
    routing: Routing = Field(
        default_factory=Routing, description="Which receivers are notified of an incident, and when."
    )

    def enabled(self) -> tuple[str, ...]:
        """The receivers of the enabled sinks, without those that only routes name."""
        found = {
            SLACK: self.slack.enabled,
            "webhook": self.webhook.enabled,
            "alertmanager": self.alertmanager.enabled,
            "pagerduty": self.pagerduty.enabled,
        }
        return tuple(name for name, on in found.items() if on)

    def reloaded(self, changed: "Sinks") -> "Sinks":
        """These settings with the live ones of `changed`.

        Raises ValueError if the changed routes name a receiver that is not enabled here.
        """
        actions = self.slack.actions.model_copy(update={"mention": changed.slack.actions.mention})
        slack = self.slack.model_copy(update={"actions": actions})
        merged = self.model_copy(update={"routing": changed.routing, "slack": slack})
        _check_receivers(merged)
        return merged

    @model_validator(mode="after")
    def _receivers_exist(self) -> Self:
        _check_receivers(self)
        return self


def _check_receivers(sinks: Sinks) -> None:
    enabled = sinks.enabled()
    for receiver in sinks.routing.receivers(enabled):
        kind, colon, channel = receiver.partition(":")
        if kind not in enabled or (colon and (kind != SLACK or not channel)):
            allowed = [*enabled, *(["slack:<channel>"] if SLACK in enabled else [])]
            there_are = ", ".join(allowed) or "none"
            raise ValueError(f"routing names {receiver!r}, which is not an enabled receiver; enabled: {there_are}")
