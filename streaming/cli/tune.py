"""`flinkwatch tune`: what another configuration would have reported."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from detectors.values.decoding import UndecodableError
from sinks.contract.feedback import decode_feedback
from streaming.cli import options
from streaming.cli.options import config_option, json_option, settings_of
from streaming.configuration.settings import Settings, load
from streaming.errors import ConfigError, UserError
from streaming.terminal import echo, echo_json, status
from streaming.tuning.compare import Comparison, compare
from streaming.tuning.report import clock, print_comparison

_CHANGED = 1
_BAD_INPUT = 2
_file = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@click.argument("files", nargs=-1, required=True, type=_file)
@click.option("--with", "new_file", type=_file, required=True, help="Configuration to compare with that of --config.")
@click.option(
    "--feedback",
    type=_file,
    help="Answers of people, from `flinkwatch feedback --json`. A removed incident that they marked as not an incident "
    "does not count as lost, and one that --with still reports is listed.",
)
@options.max_new_option
@options.max_lost_option
@config_option
@json_option
def tune(
    files: tuple[Path, ...],
    new_file: Path,
    feedback: Path | None,
    max_new: int,
    max_lost: int,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Compare two configurations on recordings.

    Shows the incidents that --config and --with report differently for the same FILES, which are recordings
    (`flinkwatch capture`), log files or metrics pages. Configuration records in them are ignored.

    Exit status: 0 if at most --max-new incidents are new and --max-lost are lost, 1 if more are, 2 for wrong input.
    """
    try:
        marked = _marked(feedback) if feedback is not None else frozenset[str]()
        if _compare(files, new_file, settings_of(config_file), as_json, marked).exceeds(max_new, max_lost):
            sys.exit(_CHANGED)
    except UserError as error:
        for line in str(error).splitlines():
            echo(f"flinkwatch: {line}", error=True)
        sys.exit(_BAD_INPUT)


def _marked(file: Path) -> frozenset[str]:
    """The IDs of the incidents that people marked as not an incident. Raises ConfigError with the line."""
    found = set()
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            one = decode_feedback(line)
        except UndecodableError as error:
            raise ConfigError(f"{file}: line {number} is not from `flinkwatch feedback --json`: {error}") from None
        if one.answer == "not_an_incident" and not one.withdrawn:
            found.add(one.incident)
    return frozenset(found)


def _compare(
    files: tuple[Path, ...], new_file: Path, settings: Settings, as_json: bool, marked: frozenset[str]
) -> Comparison:
    new = load(new_file).live
    with status("replaying") as say:
        found = compare(files, settings.live, new, settings, progress=lambda t: say(clock(t)), marked=marked)
    if as_json:
        lists: dict[str, Any] = {"added": found.added, "removed": found.removed, **found.moved()}
        lists["marked_kept"] = found.marked_kept
        rows = {name: [entry.row() for entry in entries] for name, entries in lists.items()}
        echo_json(msgspec.json.encode({**rows, "same": found.same, "span_seconds": found.span / 1000}))
    else:
        print_comparison(found)
    return found
