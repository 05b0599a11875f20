"""`flinkwatch overview`: what happened in a period."""

from pathlib import Path

import click
import msgspec

from sinks.contract.overview import Period
from sinks.contract.overview import overview as overview_of
from sinks.contract.overview_markdown import markdown
from streaming.cli import options
from streaming.cli.options import PastTime, asking, config_option, json_option, settings_of, timeout_option
from streaming.configuration import known_issues
from streaming.errors import ConfigError
from streaming.stored_incidents import stored_period
from streaming.terminal import echo, echo_json


@click.command()
@click.option(
    "--since", type=PastTime(), default="12h", show_default=True, help="Begin of the period, such as 12h or 7d."
)
@click.option("--until", type=PastTime(), help="End of the period. Default: now.")
@click.option("--cluster", help="Show only the incidents of this cluster.")
@timeout_option
@config_option
@json_option
def overview(
    since: int, until: int | None, cluster: str | None, timeout: int, config_file: Path | None, as_json: bool
) -> None:
    """Summarise the incidents of a shift or a week, as Markdown.

    Shows open incidents, counts by severity, kind and job, recurring incidents, silences that end soon, what people
    acknowledged or marked as not an incident, and how many incidents another version of Flink would have avoided.
    sinks.overviews in the configuration sends the same on schedule.
    """
    settings = settings_of(config_file)
    end = options.now() if until is None else until
    if since >= end:
        raise ConfigError("--since must be before --until")
    with asking(settings, timeout):
        period = stored_period(settings.kafka, timeout, Period(since, end, cluster or ""))
    found = overview_of(period, known_issues.in_force(settings.known_issues.files))
    if as_json:
        echo_json(msgspec.json.encode(found))
    else:
        echo(markdown(found, settings.sinks.web.external_url), newline=False)
