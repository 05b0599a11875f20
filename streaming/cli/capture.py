"""`flinkwatch capture` writes records of the topics to a file that `replay` and `tune` read."""

from datetime import UTC, datetime
from pathlib import Path

import click

from detectors.values.durations import humanize
from streaming.cli import options
from streaming.cli.options import Duration, config_option, settings_of
from streaming.recordings import capture as recorder
from streaming.terminal import UTC_CLOCK, echo, status


@click.command()
@click.option("--last", type=Duration(), required=True, help="How far back to start, such as 30m, 24h or 7d.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="File to write. Default: flinkwatch-TIME.jsonl.gz, where TIME is now.",
)
@config_option
def capture(last: int, out: Path | None, config_file: Path | None) -> None:
    """Record the input topics to a file.

    The file contains the log, metric and configuration records of the time --last. `flinkwatch replay` and
    `flinkwatch tune` read it.
    """
    kafka, now = settings_of(config_file).kafka, options.now()
    out = out or Path(f"flinkwatch-{datetime.fromtimestamp(now / 1000, UTC):%Y%m%dT%H%M%SZ}.jsonl.gz")
    with status("capturing") as say:
        found = recorder.capture(kafka, now - last, out, lambda done, of: say(f"{done:,} of {of:,} records"))
    for topic in found.missing:
        echo(f"Warning: Kafka has no topic {topic}. The recording has no records of it.", error=True)
    if not found.records:
        echo(f"{out}: no records in the last {humanize(last)}. Try a longer --last.")
        return
    first, end = (UTC_CLOCK.time(t).rstrip("Z") for t in (found.first, found.last))
    echo(f"{out}: {found.records:,} records, {first} to {end} UTC, {out.stat().st_size / 1e6:.1f} MB")
