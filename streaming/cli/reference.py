"""Commands that print files which are generated from the code."""

import click

from streaming.terminal import echo


@click.command()
def defaults() -> None:
    """Print a configuration file with all defaults."""
    from streaming.reference.configuration_file import configuration_file

    echo(configuration_file(), newline=False)


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


@click.command()
def metrics() -> None:
    """Print the reference of metrics (docs/metrics.md)."""
    from streaming.reference.metrics_page import metrics_page

    echo(metrics_page(), newline=False)
