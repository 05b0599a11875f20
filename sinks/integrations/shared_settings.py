"""Settings that several sinks have, each described once."""

from typing import Annotated, Any

from pydantic import Field

from detectors.incident import Severity
from detectors.values.durations import Duration
from sinks.contract.link_templates import LinkTemplate


def file_with(what: str, overrides: str = "token_env") -> Any:
    """The field for a file with a secret, which goes with one for an environment variable."""
    about = f"File with {what}, read at each request. It overrides `{overrides}`."
    return Field(default=None, description=about)


Timeout = Annotated[
    Duration, Field(ge=100, le=120_000, description="Time to wait for the response to a request before it is retried.")
]
MinSeverity = Annotated[
    Severity, Field(description="Lowest severity that is sent. Other incidents are sent once they reach it.")
]
TokenEnv = Annotated[
    str | None,
    Field(description="Environment variable with a token, which is sent in the header Authorization as Bearer token."),
]
RunbookBaseUrl = Annotated[
    str,
    Field(
        description="Address of the runbooks. {kind} is replaced by the kind of the incident's cause; without {kind}, "
        "the kind is appended. On GitHub: https://github.com/ORG/REPO/blob/main/docs/runbooks/{kind}.md."
    ),
]
DashboardUrl = Annotated[
    LinkTemplate,
    Field(
        description="Address of a dashboard, linked in each message. {cluster}, {job}, {job_id}, {kind}, {tm}, {host}, "
        "{incident}, {from} and {to} are replaced, the times in epoch ms as in Grafana "
        "(https://grafana.example.org/d/flink?var-job={job}&from={from}&to={to}). Incidents that have no value for one "
        "of them get no link."
    ),
]
ExplainUrl = Annotated[
    LinkTemplate,
    Field(
        description="Address of a page with details of an incident, such as a Kafka viewer or a log search, linked in "
        "each message. It has the same placeholders as dashboard_url."
    ),
]
