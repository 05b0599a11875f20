"""The section `sinks.web` of the configuration."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from detectors.values.durations import Duration
from sinks.integrations.shared_settings import file_with

_DAY_MS = 86_400_000


def _complete(url: str) -> str:
    """Raises ValueError for an address without a host, or with more than scheme, host, port and path."""
    if not url:
        return url
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("must be an address with a host, such as https://flinkwatch.example.org")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must have no user, query or fragment")
    return url.rstrip("/")


ExternalUrl = Annotated[str, Field(pattern=r"^(https?://[^\s<>|\"']{1,500})?$"), AfterValidator(_complete)]
HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$")]


class WebConfig(BaseModel):
    """The status site: incidents as web pages and as JSON, on the HTTP server of `sinks.prometheus`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(
        default=True,
        description="Whether the HTTP server of `sinks.prometheus` also serves the status site and its JSON API. They "
        "show log lines; `token_env`, `password_env` and the like restrict who reads them.",
    )
    external_url: ExternalUrl = Field(
        default="",
        description="Address under which people reach the status site, such as https://flinkwatch.example.org. "
        "Notifications then link to the page of their incident. A path in it is the prefix of every link.",
    )
    allowed_hosts: tuple[HostName, ...] = Field(
        default=(),
        description="Further host names under which the status site answers, such as the name of a Kubernetes service. "
        "IP addresses, localhost and the host of `external_url` are always allowed. Other names are refused, so that "
        "no foreign web page can read the site through a visitor's browser.",
    )
    token_env: str | None = Field(
        default=None,
        description="Environment variable with a Bearer token that programs must send to read the site and its API. "
        "Without a token and a password, everyone who reaches the port can read them.",
    )
    token_file: Path | None = file_with("the Bearer token")
    user: str = Field(
        default="flinkwatch",
        pattern=r"^[^\s:]{1,100}$",
        description="User name that browsers must send with the password.",
    )
    password_env: str | None = Field(
        default=None,
        description="Environment variable with the password that people must enter to read the site (HTTP Basic).",
    )
    password_file: Path | None = file_with("the password", "password_env")
    protect_metrics: bool = Field(
        default=False,
        description="Whether /metrics, /-/healthy and /-/ready also need the token or the password.",
    )
    retention: Duration = Field(
        default=14 * _DAY_MS,
        ge=3_600_000,
        le=90 * _DAY_MS,
        description="Time for which the site shows incidents after they have resolved. Kafka keeps every change for "
        "14 days; of older incidents only the last one may be left.",
    )

    @property
    def prefix(self) -> str:
        """The path of `external_url`, without a slash at its end."""
        return urlsplit(self.external_url).path.rstrip("/")

    @property
    def needs_login(self) -> bool:
        return self.has_token or self.has_password

    @property
    def has_token(self) -> bool:
        return self.token_env is not None or self.token_file is not None

    @property
    def has_password(self) -> bool:
        return self.password_env is not None or self.password_file is not None
