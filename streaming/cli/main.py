"""The command line. Each command imports what it needs: replay starts in a blink and never loads Spark."""

import os
import sys
from pathlib import Path

import click

from streaming.cli.lazy import LazyGroup
from streaming.cli.options import config_option, config_path, settings_of, user
from streaming.logs import configure_logs
from streaming.terminal import echo

_LATER = {
    "capture": "streaming.cli.capture:capture",
    "config": "streaming.cli.config:config",
    "play": "streaming.cli.play:play",
    "rebuild": "streaming.cli.rebuild:rebuild",
    "replay": "streaming.cli.replay:replay",
    "silence": "streaming.cli.silence:silence",
    "tune": "streaming.cli.tune:tune",
}


@click.group(cls=LazyGroup, later=_LATER, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flinkwatch")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    help="auto: text on a terminal, else JSON.",
)
def cli(log_format: str) -> None:
    """Watch Apache Flink clusters: incidents with their cause, from logs and metrics in Kafka."""

    configure_logs(log_format)


@cli.command()
@config_option
@click.option("--no-deliver", is_flag=True, help="Only the Spark job; run `flinkwatch deliver` elsewhere.")
@click.option("--master", help="Spark master, such as spark://host:7077; wins over streaming.master.")
def run(config_file: Path | None, no_deliver: bool, master: str | None) -> None:
    """Run the job and, unless --no-deliver, delivery in the same process."""
    # Before the imports, which take seconds: a signal ends all of it in order.
    from streaming.shutdown import Stop

    stop = Stop()
    stop.install()
    from streaming.job.run import run as run_job

    if master is not None:
        # In the environment it wins over the file at every reload, too.
        os.environ["FLINKWATCH__STREAMING__MASTER"] = master
    settings = settings_of(config_file)
    run_job(settings, deliver=not no_deliver, by=user(), stop=stop, file=config_path(config_file))


@cli.command()
@config_option
def deliver(config_file: Path | None) -> None:
    """Deliver incidents to Slack and Prometheus, without Spark."""
    from streaming.shutdown import Stop

    stop = Stop()
    stop.install()
    from streaming.job.deliver import run_delivery

    run_delivery(settings_of(config_file), stop)


@cli.command()
def metrics() -> None:
    """Print docs/metrics.md: every metric with its labels and its meaning."""
    from streaming.reference.metrics_page import metrics_page

    echo(metrics_page(), newline=False)


@cli.group()
def sinks() -> None:
    """Receivers of notifications."""


@sinks.command("test")
@config_option
@click.option("--only", default="", help="Only this receiver, such as slack, slack:#oncall or webhook.")
def sinks_test(config_file: Path | None, only: str) -> None:
    """Send a test incident, opened and resolved, through every enabled sink and report what is wrong. Needs no Kafka.

    The exit status is 1 if one of them does not work.
    """
    from streaming.cli.sinks import run_sinks_test

    sys.exit(run_sinks_test(settings_of(config_file), only))
