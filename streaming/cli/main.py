"""The command line. Each command imports only what it needs: replay starts fast and never loads Spark."""

import os
from pathlib import Path

import click

from streaming.cli.lazy import LazyGroup
from streaming.cli.options import config_option, config_path, settings_of, user
from streaming.logs import configure_logs

_LATER = {
    "capture": "streaming.cli.capture:capture",
    "config": "streaming.cli.config:config",
    "doctor": "streaming.cli.doctor:doctor",
    "explain": "streaming.cli.incidents.explain:explain",
    "feedback": "streaming.cli.incidents.feedback:feedback",
    "incident": "streaming.cli.incidents.incident:incident",
    "inputs": "streaming.cli.inputs:inputs",
    "metrics": "streaming.cli.reference:metrics",
    "overview": "streaming.cli.incidents.overview:overview",
    "play": "streaming.cli.play:play",
    "rebuild": "streaming.cli.rebuild:rebuild",
    "replay": "streaming.cli.replay:replay",
    "report": "streaming.cli.incidents.report:report",
    "routes": "streaming.cli.routes:routes",
    "silence": "streaming.cli.silence:silence",
    "sinks": "streaming.cli.sinks:sinks",
    "state": "streaming.cli.state:state",
    "status": "streaming.cli.incidents.status:status",
    "tune": "streaming.cli.tune:tune",
}


@click.group(cls=LazyGroup, later=_LATER, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flinkwatch")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    help="Format of the log on standard error. auto: text on a terminal, JSON elsewhere.",
)
def cli(log_format: str) -> None:
    """Detect incidents in Apache Flink clusters, with their causes, from logs and metrics in Kafka."""
    configure_logs(log_format)


@cli.command()
@config_option
@click.option("--no-deliver", is_flag=True, help="Run the job only; run `flinkwatch deliver` elsewhere.")
@click.option("--master", help="Spark master, such as spark://host:7077. Overrides streaming.master.")
def run(config_file: Path | None, no_deliver: bool, master: str | None) -> None:
    """Run the job and deliver notifications."""
    # Before the imports, which take seconds, so that a signal during them also stops in order.
    from streaming.threads import Stop

    stop = Stop()
    stop.install()
    from streaming.job.run import run as run_job

    if master is not None:
        # The environment also overrides the file at every reload.
        os.environ["FLINKWATCH__STREAMING__MASTER"] = master
    settings = settings_of(config_file)
    run_job(settings, deliver=not no_deliver, by=user(), stop=stop, file=config_path(config_file))


@cli.command()
@config_option
def deliver(config_file: Path | None) -> None:
    """Deliver notifications without running the job.

    It also serves Prometheus metrics. Run it with a job that runs elsewhere with --no-deliver.
    """
    from streaming.threads import Stop

    stop = Stop()
    stop.install()
    from streaming.job.deliver import run_delivery

    run_delivery(settings_of(config_file), stop, config_path(config_file))
