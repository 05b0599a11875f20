"""`flinkwatch play`: a recorded incident into Kafka, as if it happened now."""

from pathlib import Path

import click

from streaming.cli.options import config_option, config_path, say_where, settings_of


@click.command()
@click.argument("recording", required=False, default="late-barrier-acks")
@config_option
@click.option("--as-recorded", is_flag=True, help="Keep the names of clusters; messages are not marked as an exercise.")
def play(recording: str, config_file: Path | None, as_recorded: bool) -> None:
    """Replay RECORDING into Kafka in real time, with timestamps shifted to start now.

    RECORDING is a scenario's name or a file. It is an exercise: clusters are named exercise-… and messages say so, but
    they go to the receivers of real incidents. Waits until the flinkwatch on this host is ready.
    """
    from streaming.recordings.play import play as play_recording
    from streaming.shutdown import Stop

    settings, stop = settings_of(config_file), Stop()
    stop.install()
    say_where(settings, config_path(config_file))
    play_recording(recording, settings, stop, as_recorded)
