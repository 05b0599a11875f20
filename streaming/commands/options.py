"""What commands share."""

import getpass
import socket
from pathlib import Path

import click

from streaming.settings import Settings, load

DEFAULT_CONFIG = Path("conf/flinkwatch.yaml")

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FLINKWATCH_CONFIG",
    help="Configuration file; without it conf/flinkwatch.yaml when there is one, else the defaults.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="For a script.")


def config_path(path: Path | None) -> Path | None:
    """The file of `--config`; None: the defaults."""
    return path or (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None)


def settings_of(path: Path | None) -> Settings:
    """The settings of `--config`. Raises ConfigError."""
    return load(config_path(path))


def user() -> str:
    """Who publishes, such as ann@bastion."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not have a name.
        name = "unknown"
    return f"{name}@{socket.gethostname()}"
