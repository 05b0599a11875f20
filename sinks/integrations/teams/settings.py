"""The section `sinks.teams` of the configuration."""

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.incident import Severity
from detectors.values.durations import Duration
from sinks.integrations.shared_settings import DashboardUrl, ExplainUrl, RunbookBaseUrl, Timeout, file_with
from sinks.secret import Secret, SecretError, read_secret

_ADDRESS = r"^https?://[^\s/]+\S*$"


class TeamsConfig(BaseModel):
    """Messages to Microsoft Teams."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(
        default=False,
        description="Whether to send messages to Microsoft Teams. A bot needs `app_id`, `conversation` and a client "
        "secret, a workflow needs its address.",
    )
    mode: Literal["bot", "workflow"] = Field(
        default="bot",
        description="Way into Teams. A bot posts one message for each incident and edits it; the webhook of a workflow "
        "(Power Automate) needs no app and gets a new message for each change that matters.",
    )
    conversation: str = Field(
        default="",
        pattern=r"^[^\s/?#;]*$",
        description="ID of the channel or group chat to which the bot posts, such as 19:abc@thread.tacv2. It is part "
        "of the channel's link (Get link to channel), where %3A means : and %40 means @.",
    )
    app_id: str = Field(
        default="", pattern=r"^[\w.-]*$", description="Microsoft App ID of the bot, the client ID of its registration."
    )
    tenant: str = Field(
        default="botframework.com",
        pattern=r"^[\w.-]+$",
        description="ID of the directory (tenant) of the bot's registration. botframework.com is that of a "
        "multi-tenant bot.",
    )
    client_secret_env: str = Field(
        default="TEAMS_CLIENT_SECRET",
        description="Environment variable with a client secret of the bot's registration.",
    )
    client_secret_file: Path | None = file_with("the client secret", "client_secret_env")
    workflow_url_env: str = Field(
        default="TEAMS_WORKFLOW_URL",
        description="Environment variable with the address of the workflow's webhook. It is a secret, because anyone "
        "who has it can post.",
    )
    workflow_url_file: Path | None = file_with("the address of the workflow's webhook", "workflow_url_env")
    min_severity: Severity = Field(
        default="warning",
        description="Lowest severity that is posted. Other incidents are posted once they reach it.",
    )
    thread_updates: bool = Field(
        default=True,
        description="Whether the bot posts each change as one line in the incident's thread. If it is set to false, "
        "only the message is edited.",
    )
    thread_every: Duration = Field(
        default=600_000,
        ge=60_000,
        le=86_400_000,
        description="Shortest time between two lines in a thread, or two messages of a workflow about an incident, "
        "that only bring new numbers. Changes of cause, severity or findings, and the end, are always posted.",
    )
    runbook_base_url: RunbookBaseUrl = Field(default="", pattern=r"^(https?://[^\s<>|]+)?$")
    dashboard_url: DashboardUrl = ""
    explain_url: ExplainUrl = ""
    posts_per_minute: int = Field(
        default=15,
        ge=1,
        le=100_000,
        description="Limit for new messages and thread lines per minute in one conversation, with bursts of up to 5. "
        "Microsoft documents 60 in 30 s and 1800 in an hour for a bot in one conversation, perhaps including edits.",
    )
    edits_per_minute: int = Field(
        default=15,
        ge=1,
        le=100_000,
        description="Limit for edits per minute in one conversation, with bursts of up to 5.",
    )
    digest_above: int = Field(
        default=10,
        ge=1,
        le=100_000,
        description="Number of new messages, waiting for a conversation or sent to it within a minute, from which the "
        "bot collects further incidents in one message, the digest. The number is twice as high for critical "
        "incidents.",
    )
    timeout: Timeout = 10_000
    service_url: str = Field(
        default="https://smba.trafficmanager.net/teams/",
        pattern=_ADDRESS,
        description="Address of the Bot Connector service. Government clouds have addresses of their own.",
    )
    login_url: str = Field(
        default="https://login.microsoftonline.com/",
        pattern=_ADDRESS,
        description="Address of the service from which the bot gets its access tokens.",
    )

    @model_validator(mode="after")
    def _a_bot_needs_its_names(self) -> Self:
        if self.enabled and self.mode == "bot":
            missing = [name for name in ("app_id", "conversation") if not getattr(self, name)]
            if missing:
                raise ValueError(f"{' and '.join(missing)} needed when enabled with mode: bot")
        return self

    def client_secret(self) -> Secret:
        """Raises SecretError if it is not set."""
        return read_secret("client_secret", self.client_secret_env, self.client_secret_file)

    def workflow_url(self) -> Secret:
        """Raises SecretError if it is not set or is no address. The error does not contain it."""
        url = read_secret("workflow_url", self.workflow_url_env, self.workflow_url_file)
        if not url.isascii() or not url.isprintable() or " " in url or not _is_address(url):
            raise SecretError("workflow_url: it is not an http(s) address")
        return url


def _is_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in {"http", "https"} and bool(urlsplit(url).hostname)
    except ValueError:
        return False
