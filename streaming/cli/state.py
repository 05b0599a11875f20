"""`flinkwatch state` exports the state of the job from its checkpoint, and imports it into a new one."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streaming.cli import options
from streaming.cli.options import config_option, settings_of
from streaming.terminal import echo

if TYPE_CHECKING:
    from streaming.configuration.settings import Settings

_checkpoint = click.option(
    "--checkpoint", help="Folder or address of the checkpoint. Default: streaming.checkpoint of the configuration."
)


@click.group()
def state() -> None:
    """Export and import the state of the job.

    Use it to change streaming.buckets, streaming.shuffle_partitions or Spark's version without losing state, and to
    look at the state. Stop the job first.
    """


@state.command()
@_checkpoint
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write. Default: standard output.")
@config_option
def export(checkpoint: str | None, out: Path | None, config_file: Path | None) -> None:
    """Write the state of all clusters as JSON lines. Changes nothing in the checkpoint."""
    from streaming.job.checkpoint.export_state import export_state

    settings = _settings(config_file, checkpoint)
    with nullcontext(sys.stdout) if out is None else out.open("w", encoding="utf-8") as file:
        done = export_state(settings, file)
    echo(f"Exported {done.clusters} clusters from {settings.streaming.checkpoint}, up to batch {done.header.batch}.")


@state.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_checkpoint
@config_option
def import_(file: Path, checkpoint: str | None, config_file: Path | None) -> None:
    """Create a new checkpoint from the export FILE.

    The next `flinkwatch run` begins with its state and at its offsets, with the buckets and partitions of the
    configuration. An old checkpoint in the same place is moved aside, not deleted.
    """
    from streaming.job.checkpoint.import_state import import_state

    settings = _settings(config_file, checkpoint)
    done = import_state(settings, file, options.now())
    if done.kept is not None:
        echo(f"The old checkpoint was moved to {done.kept}. Delete it when the new one is in use.")
    streaming = settings.streaming
    echo(f"Imported {done.clusters} clusters into {streaming.checkpoint}, with {streaming.buckets} buckets.")
    echo("Now start `flinkwatch run` with the same configuration.")


def _settings(config_file: Path | None, checkpoint: str | None) -> "Settings":
    settings = settings_of(config_file)
    if checkpoint is None:
        return settings
    streaming = settings.streaming.model_copy(update={"checkpoint": checkpoint})
    return settings.model_copy(update={"streaming": streaming})
