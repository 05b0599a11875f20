"""`flinkwatch tune`: what another configuration would have reported."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from streaming.cli import options
from streaming.cli.options import config_option, json_option, settings_of
from streaming.configuration.settings import Settings, load
from streaming.errors import UserError
from streaming.terminal import echo, echo_json, status
from streaming.tuning.compare import Comparison, compare
from streaming.tuning.report import clock, print_comparison

_CHANGED = 1
_BAD_INPUT = 2
_file = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@click.argument("files", nargs=-1, required=True, type=_file)
@click.option("--with", "new_file", type=_file, required=True, help="Configuration to compare with that of --config.")
@options.max_new_option
@options.max_lost_option
@config_option
@json_option
def tune(
    files: tuple[Path, ...], new_file: Path, max_new: int, max_lost: int, config_file: Path | None, as_json: bool
) -> None:
    """Compare two configurations on recordings.

    Shows the incidents that --config and --with report differently for the same FILES, which are recordings
    (`flinkwatch capture`), log files or metrics pages. Configuration records in them are ignored.

    Exit status: 0 if at most --max-new incidents are new and --max-lost are lost, 1 if more are, 2 for wrong input.
    """
    try:
        if _compare(files, new_file, settings_of(config_file), as_json).exceeds(max_new, max_lost):
            sys.exit(_CHANGED)
    except UserError as error:
        for line in str(error).splitlines():
            echo(f"flinkwatch: {line}", error=True)
        sys.exit(_BAD_INPUT)


def _compare(files: tuple[Path, ...], new_file: Path, settings: Settings, as_json: bool) -> Comparison:
    new = load(new_file).live
    with status("replaying") as say:
        found = compare(files, settings.live, new, settings, progress=lambda t: say(clock(t)))
    if as_json:
        lists: dict[str, Any] = {"added": found.added, "removed": found.removed, **found.moved()}
        rows = {name: [entry.row() for entry in entries] for name, entries in lists.items()}
        echo_json(msgspec.json.encode({**rows, "same": found.same, "span_seconds": found.span / 1000}))
    else:
        print_comparison(found)
    return found
