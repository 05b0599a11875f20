"""`flinkwatch config schema` and `flinkwatch config docs` print files that are generated from the models."""

import click

from streaming.terminal import echo


@click.command()
def schema() -> None:
    """Print the JSON schema of the configuration file, for editors (conf/flinkwatch.schema.json)."""
    from streaming.reference.json_schema import configuration_schema

    echo(configuration_schema(), newline=False)


@click.command()
def docs() -> None:
    """Print the reference of settings (docs/configuration.md)."""
    from streaming.reference.configuration_page import configuration_page

    echo(configuration_page(), newline=False)
