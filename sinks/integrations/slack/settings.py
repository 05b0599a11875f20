"""What users set of Slack: the section `sinks.slack`."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from detectors.incident import Severity
from detectors.values.durations import Duration
from sinks.integrations.slack.message.links import check_template
from sinks.secret import Secret, read_header_secret


class SlackConfig(BaseModel):
    """Where and how incidents are told to Slack."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(default=False, description="Tell Slack of incidents; needs a channel and a bot token.")
    channel: str = Field(
        default="",
        description="Channel to post to: name or, better, its ID (survives a renaming, and lets a lost answer be "
        "looked up). The bot must be a member.",
    )
    token_env: str = Field(
        default="SLACK_BOT_TOKEN",
        description="Environment variable that holds the bot token (xoxb-..., scope chat:write; with "
        "channels:history a message whose fate is unknown is looked up and not sent twice).",
    )
    token_file: Path | None = Field(
        default=None, description="File that holds the bot token, read at each call; wins over the variable."
    )
    min_severity: Severity = Field(
        default="warning",
        description="Incidents below this are not posted: a channel of noise is muted.",
    )
    thread_updates: bool = Field(
        default=True,
        description="Also say changes in one line each in the incident's thread; off: nothing goes into threads, the "
        "message alone is edited.",
    )
    thread_every: Duration = Field(
        default=600_000,
        ge=60_000,
        le=86_400_000,
        description="Least time between two lines in a thread that only bring newer numbers; a change of cause, "
        "severity or findings, and the end, are always said. A thread notifies all who follow it.",
    )
    broadcast_critical: bool = Field(
        default=True,
        description="Show in the channel, too, that an incident has become critical: an edit notifies nobody.",
    )
    charts: bool = Field(
        default=True,
        description="Put a picture of the numbers behind an incident into its thread, at most one an hour and one at "
        "its end; needs the scope files:write, without it flinkwatch says so once and draws none.",
    )
    runbook_base_url: str = Field(
        default="",
        pattern=r"^(https?://[^\s<>|]+)?$",
        description="Address of the runbooks; {kind} in it is replaced by the kind of the cause, which is otherwise "
        "added as the last part. On GitHub: https://github.com/ORG/REPO/blob/main/docs/runbooks/{kind}.md.",
    )
    dashboard_url: str = Field(
        default="",
        description="Address of a dashboard; {cluster}, {job}, {incident}, {from} and {to} are replaced, the times in "
        "epoch ms as Grafana takes them (https://grafana.example.org/d/flink?var-job={job}&from={from}&to={to}).",
    )
    explain_url: str = Field(
        default="",
        description="Address that explains an incident, with the same places: a viewer of Kafka, a search in the logs.",
    )
    posts_per_minute: int = Field(
        default=60,
        ge=1,
        le=100_000,
        description="New messages and thread lines a minute in one channel, 10 of them at once: Slack takes about one "
        "a second.",
    )
    edits_per_minute: int = Field(
        default=50, ge=1, le=100_000, description="Edits a minute in one channel: Slack takes about 50."
    )
    digest_above: int = Field(
        default=30,
        ge=1,
        le=100_000,
        description="When so many new messages wait for a channel, or have come within a minute, what comes then is "
        "told in one message, the digest; critical incidents from twice as many on. 30 take half a minute.",
    )
    timeout: Duration = Field(
        default=10_000,
        ge=1_000,
        le=120_000,
        description="How long to wait for the connection and for each part of Slack's answer, which usually comes "
        "within a second. A call ends after twice this time, however slowly the answer arrives.",
    )
    base_url: str = Field(
        default="https://slack.com/api/",
        pattern=r"^https?://[^\s/]+",
        description="Address of Slack's web API; another one for tests and proxies.",
    )

    @field_validator("dashboard_url", "explain_url")
    @classmethod
    def _address_can_be_filled(cls, value: str) -> str:
        if value:
            check_template(value)
        return value

    @model_validator(mode="after")
    def _channel_is_needed(self) -> Self:
        if self.enabled and not self.channel:
            raise ValueError("channel is needed when enabled")
        return self

    def token(self) -> Secret:
        """The bot token. Raises SecretError when it is not set, or is none."""
        return read_header_secret("token", self.token_env, self.token_file)
