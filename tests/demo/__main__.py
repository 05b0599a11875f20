"""What bin/demo runs."""

import sys

import click

from streaming.errors import UserError
from streaming.logs import configure_logs
from streaming.terminal import echo
from tests.demo.demo import run_demo


@click.command()
@click.argument("scenario", required=False, default="late-barrier-acks")
@click.option(
    "--speed", type=click.FloatRange(min=1), default=20.0, show_default=True, help="Times faster than it happened."
)
@click.option("--keep", is_flag=True, help="Keep everything running at the end, until Ctrl-C.")
def demo(scenario: str, speed: float, keep: bool) -> None:
    """Everything embedded: a broker, the job, a recorded incident, and the message as Slack would show it."""
    configure_logs("auto")
    try:
        sys.exit(run_demo(scenario, speed, keep))
    except UserError as error:
        echo(f"bin/demo: {error}", error=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    demo(prog_name="bin/demo")
