"""`flinkwatch config`: check, publish and look at the configuration."""

from pathlib import Path

import click

from streaming.settings import load


@click.group()
def config() -> None:
    """Check, publish and look at the configuration."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def check(file: Path) -> None:
    """Validate FILE and the known issues; every error names file, line, key and what is allowed."""
    from streaming.known_issues import shipped

    load(file, {})
    shipped()
    click.echo(f"{file}: ok")


@config.command()
def defaults() -> None:
    """Print the configuration file with every setting, its default and its reason."""
    from streaming.reference import configuration_file

    click.echo(configuration_file(), nl=False)
