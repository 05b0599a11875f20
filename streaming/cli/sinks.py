"""`flinkwatch sinks test` checks the receivers and prints the result of each check."""

import sys
from pathlib import Path

import click

from sinks.receivers import make_receivers
from sinks.self_test import try_receivers
from streaming.cli.options import config_option, settings_of
from streaming.errors import ConfigError
from streaming.terminal import echo

_MARKS = {True: "ok     ", None: "missing", False: "FAILED "}


@click.group()
def sinks() -> None:
    """Check the receivers of notifications, such as Slack."""


@sinks.command()
@config_option
@click.option("--only", default="", help="Test only this receiver, such as slack, slack:#oncall or webhook.")
def test(config_file: Path | None, only: str) -> None:
    """Send a test incident to every receiver.

    The test incident is opened and resolved at every enabled receiver, and problems are reported. Needs no Kafka.

    Exit status: 0 if all receivers work, 1 if one of them does not.
    """
    receivers = make_receivers(settings_of(config_file).sinks)
    chosen = tuple(receiver for receiver in receivers if only in ("", receiver.name))
    if not receivers:
        raise ConfigError("sinks: no receiver is enabled. Set for example sinks.slack.enabled: true")
    if not chosen:
        raise ConfigError(f"sinks: no receiver {only!r}. Enabled receivers: {', '.join(one.name for one in receivers)}")
    failed = False
    for result in try_receivers(chosen):
        echo(f"{_MARKS[result.ok]}  {result.receiver}: {result.text}")
        failed = failed or result.ok is False
    sys.exit(failed)
