"""`flinkwatch tune` shows which incidents another configuration would have reported."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from streaming.cli.options import config_option, json_option, settings_of
from streaming.configuration.settings import Settings, load
from streaming.errors import UserError
from streaming.terminal import echo, echo_json

_CHANGED = 1
_BAD_INPUT = 2
_file = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@click.argument("files", nargs=-1, required=True, type=_file)
@click.option("--with", "new_file", type=_file, help="Configuration to compare with that of --config.")
@click.option(
    "--suggest",
    is_flag=True,
    help="Suggest thresholds that keep healthy recordings quiet and still find the incidents.",
)
@click.option(
    "--healthy", multiple=True, type=_file, help="With --suggest: a recording that must be silent; repeatable."
)
@click.option("--kind", "kinds", multiple=True, help="With --suggest: this kind alone; repeatable.")
@click.option("--max-new", type=click.IntRange(min=0), default=0, show_default=True, help="New incidents allowed.")
@click.option("--max-lost", type=click.IntRange(min=0), default=0, show_default=True, help="Lost incidents allowed.")
@config_option
@json_option
def tune(
    files: tuple[Path, ...],
    new_file: Path | None,
    suggest: bool,
    healthy: tuple[Path, ...],
    kinds: tuple[str, ...],
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
    if suggest == (new_file is not None):
        raise click.UsageError("give either --with NEW.yaml or --suggest")
    if not suggest and (healthy or kinds):
        raise click.UsageError("--healthy and --kind belong to --suggest")
    try:
        settings = settings_of(config_file)
        if new_file is None:
            _suggest(files, healthy, kinds, settings, as_json)
        elif _compare(files, new_file, settings, as_json).exceeds(max_new, max_lost):
            sys.exit(_CHANGED)
    except UserError as error:
        for line in str(error).splitlines():
            echo(f"flinkwatch: {line}", error=True)
        sys.exit(_BAD_INPUT)


def _compare(files: tuple[Path, ...], new_file: Path, settings: Settings, as_json: bool) -> Any:
    from streaming.tuning.compare import compare
    from streaming.tuning.report import clock, print_comparison

    new = load(new_file).live
    with _status("replaying") as say:
        found = compare(files, settings.live, new, settings, progress=lambda t: say(clock(t)))
    if as_json:
        lists: dict[str, Any] = {"added": found.added, "removed": found.removed, **found.moved()}
        rows = {name: [entry.row() for entry in entries] for name, entries in lists.items()}
        echo_json(msgspec.json.encode({**rows, "same": found.same, "span_seconds": found.span / 1000}))
    else:
        print_comparison(found)
    return found


def _suggest(
    files: tuple[Path, ...], healthy: tuple[Path, ...], kinds: tuple[str, ...], settings: Settings, as_json: bool
) -> None:
    from streaming.tuning.report import print_suggestions
    from streaming.tuning.suggest import suggest
    from streaming.tuning.threshold import TUNABLE

    for kind in kinds:
        if kind not in TUNABLE:
            raise UserError(f"--kind {kind}: has no threshold to tune; allowed: {', '.join(TUNABLE)}")
    with _status("replaying") as say:
        made = suggest(files, healthy, settings, kinds or TUNABLE, progress=say)
    if as_json:
        rows = {
            "suggestions": made.suggestions,
            "overrides": [o.model_dump(exclude_unset=True) for o in made.overrides],
        }
        proof = {"alarms": made.alarms, "found": made.found, "incidents": made.incidents}
        echo_json(msgspec.json.encode({**rows, "replayed": proof}))
    else:
        print_suggestions(made)


@contextmanager
def _status(title: str) -> Iterator[Callable[[str], None]]:
    """Shows on a terminal how far it is."""
    from streaming.terminal import Console

    with Console(stderr=True).status(title) as status:
        yield lambda detail: status.update(f"{title} {detail}")
