"""The section `sinks.slack.actions` of the configuration."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from detectors.values.durations import Duration
from sinks.integrations.shared_settings import file_with
from sinks.secret import Secret, read_header_secret

ANYONE = "*"

PersonOrGroup = Annotated[str, StringConstraints(pattern=r"^[UWS][A-Z0-9]{4,20}$")]


class SlackActionsConfig(BaseModel):
    """Buttons in messages and the command /flinkwatch."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(
        default=False,
        description="Whether messages of open incidents have buttons: acknowledge, silence, not an incident. Needs an "
        "app-level token and an app with Socket Mode.",
    )
    app_token_env: str = Field(
        default="SLACK_APP_TOKEN",
        description="Environment variable with the app-level token (xapp-..., scope connections:write).",
    )
    app_token_file: Path | None = file_with("the app-level token", overrides="app_token_env")
    allowed: tuple[Annotated[str, StringConstraints(pattern=r"^(\*|[UWS][A-Z0-9]{4,20})$")], ...] = Field(
        default=(),
        description="IDs of the users (U0123ABCD) and user groups (S0123ABCD) who may use the buttons and the command. "
        '["*"] means everyone in the workspace. Groups need the scope usergroups:read.',
    )
    remind_after: Duration = Field(
        default=0,
        ge=0,
        le=604_800_000,
        description="Time after which a critical incident that no one has acknowledged gets one reminder in its "
        "thread, which is also shown in the channel. 0 means no reminder.",
    )
    mention: tuple[PersonOrGroup, ...] = Field(
        default=(), description="IDs of the users and user groups whom the reminder mentions."
    )

    @model_validator(mode="after")
    def _someone_may(self) -> Self:
        if self.enabled and not self.allowed:
            raise ValueError('allowed is needed when enabled: IDs of users and user groups, or ["*"] for everyone')
        if self.remind_after and not self.enabled:
            raise ValueError("remind_after needs enabled, because an incident is acknowledged by a button")
        return self

    def app_token(self) -> Secret:
        """The app-level token. Raises SecretError if it is not set or cannot be sent in an HTTP header."""
        return read_header_secret("app_token", self.app_token_env, self.app_token_file)
