"""`flinkwatch config schema` and `flinkwatch config docs`: what is generated from the configuration's models."""

import click

from streaming.terminal import echo


@click.command()
def schema() -> None:
    """Print conf/flinkwatch.schema.json: the configuration file's JSON schema, for editors."""
    from streaming.reference.json_schema import configuration_schema

    echo(configuration_schema(), newline=False)


@click.command()
def docs() -> None:
    """Print docs/configuration.md: every setting with type, default, bounds, reason, and when a change counts."""
    from streaming.reference.configuration_page import configuration_page

    echo(configuration_page(), newline=False)
