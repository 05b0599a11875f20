"""The section `sinks` of the configuration."""

from pydantic import BaseModel, ConfigDict, Field

from sinks.prometheus import PageConfig
from sinks.slack.settings import SlackConfig


class Sinks(BaseModel):
    """Where incidents and readings go; needs a restart when changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slack: SlackConfig = Field(default_factory=SlackConfig, description="Messages to a Slack channel.")
    prometheus: PageConfig = Field(
        default_factory=PageConfig, description="The page that Prometheus scrapes, and the health of the process."
    )
