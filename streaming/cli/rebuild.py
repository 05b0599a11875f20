"""`flinkwatch rebuild` replaces a lost or damaged checkpoint by one that is filled from Kafka."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from detectors.values.durations import parse_duration
from streaming.cli import options
from streaming.cli.options import config_option, settings_of
from streaming.job.checkpoint import rebuild as checkpoint
from streaming.terminal import echo


class _Since(click.ParamType[int]):
    """A time in epoch ms, given as "2h" (before now) or 2026-11-21T22:00:00Z (UTC without a zone)."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            return options.now() - parse_duration(value)
        except ValueError:
            pass
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value} is neither a duration such as 2h nor a time such as 2026-11-21T22:00:00Z", param, ctx)
        return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)


@click.command()
@click.option(
    "--from",
    "since",
    type=_Since(),
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
