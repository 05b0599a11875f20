"""The section `sinks` of the configuration."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.values.durations import Duration
from sinks.integrations.alertmanager import AlertmanagerConfig
from sinks.integrations.pagerduty import PagerDutyConfig
from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.teams.settings import TeamsConfig
from sinks.integrations.webhook import WebhookConfig
from sinks.prometheus.http_server import PrometheusConfig
from sinks.routing import Routing
from sinks.web.site.settings import WebConfig

SLACK, TEAMS = "slack", "teams"
"""The receivers of their own channel; others are `slack:<channel>` and `teams:<conversation>`."""


class Sinks(BaseModel):
    """Where incidents and readings are sent. A change needs a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slack: SlackConfig = Field(default_factory=SlackConfig, description="Messages to Slack channels.")
    prometheus: PrometheusConfig = Field(
        default_factory=PrometheusConfig, description="HTTP server with metrics for Prometheus and health checks."
    )
    web: WebConfig = Field(default_factory=WebConfig, description="Status site: incidents as web pages and as JSON.")
    webhook: WebhookConfig = Field(default_factory=WebhookConfig, description="Signed JSON to a receiver of your own.")
    alertmanager: AlertmanagerConfig = Field(default_factory=AlertmanagerConfig, description="Alerts for Alertmanager.")
    pagerduty: PagerDutyConfig = Field(default_factory=PagerDutyConfig, description="Events for PagerDuty.")
    teams: TeamsConfig = Field(
        default_factory=TeamsConfig, description="Messages to channels and chats of Microsoft Teams."
    )
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
            TEAMS: self.teams.enabled,
        }
        return tuple(name for name, on in found.items() if on)

    def _with_channels(self) -> dict[str, str]:
        """The sinks that routes may name with a channel, and how."""
        bot = {TEAMS: "teams:<conversation>"} if self.teams.mode == "bot" else {}
        return {SLACK: "slack:<channel>", **bot}

    @model_validator(mode="after")
    def _receivers_exist(self) -> Self:
        enabled = self.enabled()
        for receiver in self.routing.receivers(enabled):
            kind, colon, channel = receiver.partition(":")
            if kind not in enabled or (colon and (kind not in self._with_channels() or not channel)):
                allowed = [
                    *enabled,
                    *(self._with_channels()[kind] for kind in enabled if kind in self._with_channels()),
                ]
                there_are = ", ".join(allowed) or "none"
                raise ValueError(f"routing names {receiver!r}, which is not an enabled receiver; enabled: {there_are}")
        return self
