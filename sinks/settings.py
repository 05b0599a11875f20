"""The section `sinks` of the configuration."""

from collections import Counter
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.values.durations import Duration
from sinks.contract.link_templates import FlinkUiUrls
from sinks.contract.overview_schedule import OverviewSchedule
from sinks.integrations.alertmanager import AlertmanagerConfig
from sinks.integrations.pagerduty import PagerDutyConfig
from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.teams.settings import TeamsConfig
from sinks.integrations.webhook import WebhookConfig
from sinks.prometheus.http_server import PrometheusConfig
from sinks.routing import Routing
from sinks.web.site.settings import WebConfig

LIVE = ("routing", "slack.actions.mention")
"""The settings that are reloaded without a restart."""

SLACK, TEAMS = "slack", "teams"
"""The receivers of their own channel; others are `slack:<channel>` and `teams:<conversation>`."""
_ALERTS_ONLY = ("alertmanager", "pagerduty")


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
    teams: TeamsConfig = Field(
        default_factory=TeamsConfig, description="Messages to channels and chats of Microsoft Teams."
    )
    flink_ui_url: FlinkUiUrls = Field(
        default={},
        description="Addresses of Flink's web UI by pattern for the cluster's name, linked in messages and on pages, "
        'such as {"prod-*": "https://flink.example.org/{cluster}/#/job/{job_id}/checkpoints"}. The first pattern that '
        "matches counts. The placeholders are those of `slack.dashboard_url`.",
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

    overviews: tuple[OverviewSchedule, ...] = Field(
        default=(),
        description="Overviews that are sent on schedule, at the end of a shift or weekly. Each covers the time since "
        "the one before it. For example "
        '[{name: shift, at: ["08:00", "20:00"], time_zone: Europe/Berlin, to: ["slack"]}, '
        '{name: week, at: ["09:00"], days: [mon], to: ["slack", webhook]}].',
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

    def receivers(self) -> tuple[str, ...]:
        """Every receiver that gets incidents or overviews."""
        named = [receiver for schedule in self.overviews for receiver in schedule.to]
        return tuple(dict.fromkeys([*self.routing.receivers(self.enabled()), *named]))

    def _with_channels(self) -> dict[str, str]:
        """The sinks that routes may name with a channel, and how."""
        bot = {TEAMS: "teams:<conversation>"} if self.teams.mode == "bot" else {}
        return {SLACK: "slack:<channel>", **bot}

    def _allowed(self) -> list[str]:
        """What routes may name, in words."""
        enabled, channels = self.enabled(), self._with_channels()
        return [*enabled, *(channels[kind] for kind in enabled if kind in channels)]

    def reloaded(self, changed: "Sinks") -> "Sinks":
        """These settings with the live ones of `changed`.

        Raises ValueError if the changed routes name a receiver that is not enabled here.
        """
        actions = self.slack.actions.model_copy(update={"mention": changed.slack.actions.mention})
        slack = self.slack.model_copy(update={"actions": actions})
        merged = self.model_copy(update={"routing": changed.routing, "slack": slack})
        merged.check_routes()
        return merged

    @model_validator(mode="after")
    def _receivers_exist(self) -> Self:
        self.check_routes()
        return self

    @model_validator(mode="after")
    def _overviews_can_be_sent(self) -> Self:
        names = Counter(schedule.name for schedule in self.overviews)
        if repeated := next((name for name, count in names.items() if count > 1), None):
            raise ValueError(f"overviews: {repeated!r} is the name of more than one schedule")
        for schedule in self.overviews:
            for receiver in schedule.to:
                if receiver in _ALERTS_ONLY:
                    allowed = ", ".join(one for one in self._allowed() if one not in _ALERTS_ONLY) or "none"
                    raise ValueError(
                        f"overviews: {schedule.name!r} names {receiver!r}, which takes alerts and cannot show an "
                        f"overview; allowed: {allowed}"
                    )
                self._check_receiver(receiver, self.enabled(), f"overviews: {schedule.name!r} names")
        return self

    def check_routes(self) -> None:
        """Raises ValueError if a route names a receiver that is not enabled."""
        enabled = self.enabled()
        for receiver in self.routing.receivers(enabled):
            self._check_receiver(receiver, enabled, "routing names")

    def _check_receiver(self, receiver: str, enabled: tuple[str, ...], named: str) -> None:
        kind, colon, channel = receiver.partition(":")
        if kind not in enabled or (colon and (kind not in self._with_channels() or not channel)):
            there_are = ", ".join(self._allowed()) or "none"
            raise ValueError(f"{named} {receiver!r}, which is not an enabled receiver; enabled: {there_are}")
