"""`flinkwatch incident` works with one incident."""

import click

from streaming.cli.lazy import LazyGroup

_LATER = {
    "export": "streaming.cli.incidents.export:export",
    "resolve": "streaming.cli.incidents.resolve:resolve",
}


@click.group(cls=LazyGroup, later=_LATER)
def incident() -> None:
    """Resolve or export an incident."""
