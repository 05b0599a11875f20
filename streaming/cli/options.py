"""Options and functions that commands share."""

import getpass
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streaming.terminal import echo

if TYPE_CHECKING:
    from streaming.configuration.settings import Settings
    from streaming.configuration.topic import ConfigHistory, ConfigTopic

DEFAULT_CONFIG = Path("conf/flinkwatch.yaml")

_QUIET_S = 2.0


class Duration(click.ParamType[int]):
    """A duration in ms, such as 30s or 7d."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        from detectors.values.durations import parse_duration

        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(f"{value} {error}", param, ctx)


class PastTime(click.ParamType[int]):
    """A time in epoch ms, given as "2h" (before now) or 2026-11-21T22:00:00Z (UTC without a zone)."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        from detectors.values.durations import parse_duration

        if isinstance(value, int):
            return value
        try:
            return now() - parse_duration(value)
        except ValueError:
            pass
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value} is neither a duration such as 2h nor a time such as 2026-11-21T22:00:00Z", param, ctx)
        return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)


class NamePattern(click.ParamType[str]):
    """A pattern for names, as in overrides and silences."""

    name = "pattern"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from pydantic import TypeAdapter, ValidationError

        from detectors.values.name_pattern import Pattern

        try:
            return TypeAdapter[str](Pattern).validate_python(value)
        except ValidationError as error:
            self.fail(error.errors(include_url=False)[0]["msg"].removeprefix("Value error, "), param, ctx)


config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FLINKWATCH_CONFIG",
    show_envvar=True,
    help="Configuration file. Default: conf/flinkwatch.yaml if it exists, else the built-in defaults.",
)
cluster_option = click.option(
    "--cluster",
    type=NamePattern(),
    default="*",
    help="Only clusters with such names: a glob such as prod-*, or ~ and an RE2 expression.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
timeout_option = click.option(
    "--timeout", type=Duration(), default="30s", show_default=True, help="How long to wait for Kafka, such as 5s or 2m."
)

max_new_option = click.option(
    "--max-new", type=click.IntRange(min=0), default=0, show_default=True, help="New incidents allowed."
)
max_lost_option = click.option(
    "--max-lost", type=click.IntRange(min=0), default=0, show_default=True, help="Lost incidents allowed."
)


def config_path(path: Path | None) -> Path | None:
    """The file of `--config`; None: the defaults."""
    return path or (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None)


def settings_of(path: Path | None) -> "Settings":
    """The settings of `--config`. Raises ConfigError."""
    from streaming.configuration.settings import load

    return load(config_path(path))


def say_where(settings: "Settings", path: Path | None) -> None:
    """Print to standard error which brokers and topics a command writes to, and which file of `--config` named them."""
    access, topics = settings.kafka.access, settings.kafka.topics
    name = config_path(path) or "the built-in defaults"
    echo(f"Using {name}: Kafka at {access.bootstrap_servers}, topics {topics.prefix}.*", error=True)


@contextmanager
def asking(settings: "Settings", timeout: int) -> Iterator[None]:
    """Print to standard error what a command waits for, once that takes more than two seconds."""
    servers = settings.kafka.access.bootstrap_servers
    words = f"waiting for Kafka at {servers}, at most {timeout / 1000:g} s (--timeout) …"
    timer = threading.Timer(_QUIET_S, lambda: echo(words, error=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def topic_of(settings: "Settings", timeout: int) -> "ConfigTopic":
    """The configuration topic; each call of it waits at most `timeout` ms."""
    from streaming.configuration import topic

    return topic.ConfigTopic(settings.kafka.access, settings.kafka.topics.config, timeout)


def history_of(settings: "Settings", timeout: int) -> "ConfigHistory":
    """The content of the configuration topic. Raises PublishedError."""
    with asking(settings, timeout):
        return topic_of(settings, timeout).history()


def now() -> int:
    """Epoch ms."""
    return round(time.time() * 1000)


def user() -> str:
    """The user who publishes, such as ann@bastion."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not have a name.
        name = "unknown"
    return f"{name}@{socket.gethostname()}"
