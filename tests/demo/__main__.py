"""The command line of bin/demo."""

import sys

import click

from streaming.errors import UserError
from streaming.logs import configure_logs
from streaming.terminal import echo
from tests.demo.demo import run_demo


@click.command()
@click.argument("scenario", required=False, default="late-barrier-acks")
@click.option(
    "--speed", type=click.FloatRange(min=1), default=20.0, show_default=True, help="Playback speed: 1 is real time."
)
@click.option("--keep", is_flag=True, help="Keep everything running afterwards, until Ctrl-C.")
def demo(scenario: str, speed: float, keep: bool) -> None:
    """Show a recorded incident from Kafka to Slack.

    Starts an embedded Kafka broker, the job and a fake Slack, plays SCENARIO and shows the messages. SCENARIO is the
    name of a scenario, or a recording.
    """
    configure_logs("auto")
    try:
        sys.exit(run_demo(scenario, speed, keep))
    except UserError as error:
        echo(f"bin/demo: {error}", error=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    demo(prog_name="bin/demo")
