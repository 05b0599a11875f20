"""`flinkwatch rebuild` replaces a lost or damaged checkpoint by one that is filled from Kafka."""

from datetime import UTC, datetime
from pathlib import Path

import click

from streaming.cli import options
from streaming.cli.options import PastTime, config_option, settings_of
from streaming.job.checkpoint import rebuild as checkpoint
from streaming.terminal import echo


@click.command()
@click.option(
    "--from",
    "since",
    type=PastTime(),
    help="Time from which records are read: 2h (before now) or 2026-11-21T22:00:00Z. Default: the oldest records.",
)
@config_option
def rebuild(since: int | None, config_file: Path | None) -> None:
    """Create a new checkpoint from the records in Kafka.

    Stop the job first. The next `flinkwatch run` fills the new checkpoint without sending past notifications again. The
    old checkpoint is moved aside, not deleted.
    """
    settings = settings_of(config_file)
    echo(f"Using Kafka at {settings.kafka.access.bootstrap_servers}, checkpoint {settings.streaming.checkpoint}")
    done = checkpoint.rebuild(settings, since, options.now())
    if done.kept is not None:
        echo(f"The old checkpoint was moved to {done.kept}. Delete it when the new one has caught up.")
    until = datetime.fromtimestamp(done.until / 1000, UTC)
    echo(f"Changes of incidents before {until:%Y-%m-%d %H:%M:%S} UTC are not notified again.")
    if done.stale:
        echo(f"Open incidents that are older than the records in Kafka are now stale: {', '.join(done.stale)}")
    echo("Now start `flinkwatch run` with the same configuration.")
