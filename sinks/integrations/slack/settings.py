"""The section `sinks.slack` of the configuration."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.incident import Severity
from detectors.values.durations import Duration
from sinks.contract.link_templates import LinkTemplate
from sinks.integrations.shared_settings import RunbookBaseUrl, file_with
from sinks.integrations.slack.actions.settings import SlackActionsConfig
from sinks.secret import Secret, read_header_secret


class SlackConfig(BaseModel):
    """Messages to Slack."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(
        default=False, description="Whether to send messages to Slack. Needs a channel and a bot token."
    )
    channel: str = Field(
        default="",
        description="Channel to post to, preferably its ID: an ID stays the same if the channel is renamed, and lets "
        "flinkwatch look up a message after a lost response. The bot must be a member of the channel.",
    )
    token_env: str = Field(
        default="SLACK_BOT_TOKEN",
        description="Environment variable with the bot token (xoxb-..., scope chat:write). With the scope "
        "channels:history, flinkwatch looks up a message after a lost response instead of posting it twice.",
    )
    token_file: Path | None = file_with("the bot token")
    min_severity: Severity = Field(
        default="warning",
        description="Lowest severity that is posted. Other incidents are posted once they reach it.",
    )
    thread_updates: bool = Field(
        default=True,
        description="Whether to post each change as one line in the incident's thread. If it is set to false, only "
        "the message is edited and nothing is posted in threads.",
    )
    thread_every: Duration = Field(
        default=600_000,
        ge=60_000,
        le=86_400_000,
        description="Shortest time between two lines in a thread that only bring new numbers, because a thread "
        "notifies everyone who follows it. Changes of cause, severity or findings, and the end, are always posted.",
    )
    broadcast_critical: bool = Field(
        default=True,
        description="Whether to post also in the channel when an incident becomes critical, because an edit "
        "notifies no one.",
    )
    charts: bool = Field(
        default=True,
        description="Whether to post a chart of the numbers behind an incident in its thread, at most one per hour "
        "and one at the end. Needs the scope files:write; without it, flinkwatch logs one warning and posts no charts.",
    )
    runbook_base_url: RunbookBaseUrl = Field(default="", pattern=r"^(https?://[^\s<>|]+)?$")
    dashboard_url: LinkTemplate = Field(
        default="",
        description="Address of a dashboard, linked in each message. {cluster}, {job}, {job_id}, {kind}, {tm}, {host}, "
        "{incident}, {from} and {to} are replaced, the times in epoch ms as in Grafana "
        "(https://grafana.example.org/d/flink?var-job={job}&from={from}&to={to}). Incidents that have no value for one "
        "of them get no link.",
    )
    explain_url: LinkTemplate = Field(
        default="",
        description="Address of a page with details of an incident, such as a Kafka viewer or a log search, linked in "
        "each message. It has the same placeholders as dashboard_url.",
    )
    posts_per_minute: int = Field(
        default=60,
        ge=1,
        le=100_000,
        description="Limit for new messages and thread lines per minute in one channel, with bursts of up to 10. Slack "
        "accepts about one per second.",
    )
    edits_per_minute: int = Field(
        default=50,
        ge=1,
        le=100_000,
        description="Limit for edits per minute in one channel. Slack accepts about 50.",
    )
    digest_above: int = Field(
        default=30,
        ge=1,
        le=100_000,
        description="Number of new messages, waiting for a channel or sent to it within a minute, from which further "
        "incidents are collected in one message, the digest. The number is twice as high for critical incidents. 30 "
        "messages take half a minute.",
    )
    actions: SlackActionsConfig = Field(
        default_factory=SlackActionsConfig, description="Buttons in messages, and the command /flinkwatch."
    )
    timeout: Duration = Field(
        default=10_000,
        ge=1_000,
        le=120_000,
        description="Timeout for the connection and for each part of Slack's response, which usually takes less than a "
        "second. A call is abandoned after twice this time.",
    )
    base_url: str = Field(
        default="https://slack.com/api/",
        pattern=r"^https?://[^\s/]+",
        description="Address of Slack's Web API. Change it only for tests and proxies.",
    )

    @model_validator(mode="after")
    def _channel_is_needed(self) -> Self:
        if self.enabled and not self.channel:
            raise ValueError("channel is needed when enabled")
        return self

    def token(self) -> Secret:
        """The bot token. Raises SecretError if it is not set or cannot be sent in an HTTP header."""
        return read_header_secret("token", self.token_env, self.token_file)
