"""What users set of Slack: the section `sinks.slack`."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.incidents.incident import Severity
from detectors.units import Duration
from sinks.secret import Secret, read_secret


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
        description="Also say each change in one line in the incident's thread; off where threads are too many.",
    )
    runbook_base_url: str = Field(
        default="", description="Address of the runbooks; the kind of the cause is added as a last part."
    )
    timeout: Duration = Field(
        default=10_000,
        ge=1_000,
        le=120_000,
        description="How long to wait for Slack's answer; it usually comes within a second.",
    )
    base_url: str = Field(
        default="https://slack.com/api/",
        pattern=r"^https?://[^\s/]+",
        description="Address of Slack's web API; another one for tests and proxies.",
    )

    @model_validator(mode="after")
    def _channel_is_needed(self) -> Self:
        if self.enabled and not self.channel:
            raise ValueError("channel is needed when enabled")
        return self

    def token(self) -> Secret:
        """The bot token. Raises SecretError when it is not set."""
        return read_secret("token", self.token_env, self.token_file)
