"""`flinkwatch capture`: records of the topics into a file that `replay` and `tune` read."""

import time
from datetime import UTC, datetime
from pathlib import Path

import click

from detectors.values.durations import humanize
from streaming.cli.options import Duration, config_option, settings_of
from streaming.terminal import echo, status


@click.command()
@click.option("--last", type=Duration(), required=True, help="How far back, such as 30m, 24h or 7d.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="The recording; without it flinkwatch-TIME.jsonl.gz, named for its end.",
)
@config_option
def capture(last: int, out: Path | None, config_file: Path | None) -> None:
    """Record the log, metric and configuration topics since --last, for `flinkwatch replay` and `flinkwatch tune`."""
    from streaming.recordings.capture import capture as capture_records

    kafka = settings_of(config_file).kafka
    now = time.time()
    out = out or Path(f"flinkwatch-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}.jsonl.gz")
    with status("capturing") as say:
        found = capture_records(
            kafka, round(now * 1000) - last, out, lambda done, of: say(f"{done:,} of {of:,} records")
        )
    for topic in found.missing:
        echo(f"Warning: Kafka has no topic {topic}, so nothing of it is in the recording.", error=True)
    if not found.records:
        echo(f"{out}: no record has come for {humanize(last)}; is --last long enough?")
        return
    first, end = (f"{datetime.fromtimestamp(t / 1000, UTC):%Y-%m-%d %H:%M:%S}" for t in (found.first, found.last))
    echo(f"{out}: {found.records:,} records, {first} to {end} UTC, {out.stat().st_size / 1e6:.1f} MB")
