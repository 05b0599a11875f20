"""`flinkwatch play` writes a recorded incident to Kafka as if it happened now."""

from pathlib import Path

import click

from streaming.cli.options import config_option, say_where, settings_of
from streaming.recordings import play as player
from streaming.threads import Stop


@click.command()
@click.argument("recording", required=False, default="late-barrier-acks")
@config_option
@click.option("--as-recorded", is_flag=True, help="Keep the cluster names and do not mark messages as an exercise.")
def play(recording: str, config_file: Path | None, as_recorded: bool) -> None:
    """Play a recorded incident into Kafka.

    RECORDING is the name of a scenario, or a file. It is played in real time, with timestamps shifted to start now.
    Clusters are renamed to exercise-… and messages are marked as an exercise, but they go to the receivers of real
    incidents. The command waits until the flinkwatch on this host is ready.
    """
    settings, stop = settings_of(config_file), Stop()
    stop.install()
    say_where(settings, config_file)
    player.play(recording, settings, stop, as_recorded)
