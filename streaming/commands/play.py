"""`flinkwatch play`: a recorded incident into Kafka, as if it happened now."""

from pathlib import Path

import click

from streaming.commands.options import config_option, settings_of


@click.command()
@click.argument("recording", required=False, default="late-barrier-acks")
@config_option
def play(recording: str, config_file: Path | None) -> None:
    """Write RECORDING, a scenario's name or a file, to Kafka as fast as it happened, dated from now on.

    For trying out an installation: a running flinkwatch tells the incident as it would a real one.
    """
    from streaming.demo.playing import play as play_recording
    from streaming.stop import Stop

    settings, stop = settings_of(config_file), Stop()
    stop.install()
    play_recording(recording, settings, stop)
