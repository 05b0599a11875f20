"""`flinkwatch silence`: incidents that are followed and told to nobody, for a time."""

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from pydantic import ValidationError

from detectors.incidents.silences import Silence, at
from detectors.units import parse_duration
from streaming.commands import printed
from streaming.commands.options import config_option, json_option, settings_of, user
from streaming.configuration.published import ConfigTopic
from streaming.configuration.silences import about, expired, listed
from streaming.errors import ConfigError
from streaming.settings import Settings
from streaming.terminal import echo, echo_json

_PATTERN = "a glob such as prod-*, or ~ and an RE2 expression"


@click.group()
def silence() -> None:
    """Tell nobody of some incidents for a time; they are followed all the same."""


@silence.command()
@config_option
@click.option("--cluster", default="*", help=f"Cluster: {_PATTERN}.")
@click.option("--namespace", default="*", help="Namespace, where clusters are named namespace/app.")
@click.option("--job", default="*", help="Name of the job.")
@click.option("--kind", "kinds", multiple=True, default=("*",), help="Kind of the cause; may be given several times.")
@click.option("--for", "lasting", metavar="DURATION", help="How long from now or --begins, such as 30m, 2h or 1d.")
@click.option("--until", metavar="TIME", help="Until when, such as 2026-11-22T06:00:00+01:00.")
@click.option("--begins", metavar="TIME", help="From when; without it at once.")
@click.option("--comment", required=True, help="Why.")
@click.option("--author", default=user, help="Who wants it; without it you.")
@click.option("--json", "as_json", is_flag=True, help="Print the silence as JSON.")
def add(config_file: Path | None, lasting: str | None, until: str | None, as_json: bool, **fields: Any) -> None:
    """Silence what fits every pattern. Prints the id, by which it can be expired."""
    now = int(time.time() * 1000)
    made = _silence(lasting, until, now, fields)
    if made.edges()[1] <= now:
        raise ConfigError(f"--until: {made.until.isoformat()} has passed")
    _topic(settings_of(config_file)).publish_silence(made, user())
    if as_json:
        echo_json(msgspec.json.encode(made.model_dump(mode="json")))
    else:
        echo(f"{made.id} silences {about(made)} until {made.until.isoformat(timespec='seconds')}")


@silence.command("list")
@config_option
@json_option
def list_(config_file: Path | None, as_json: bool) -> None:
    """Print the silences of the configuration and of the command line: active, pending and ended."""
    found = listed(_topic(settings_of(config_file)).history(), int(time.time() * 1000))
    if as_json:
        for one in found:
            echo_json(msgspec.json.encode(one._asdict()))
    else:
        printed.silences(found)


@silence.command()
@click.argument("id")
@config_option
def expire(id: str, config_file: Path | None) -> None:  # noqa: A002 - click names it so
    """End the silence ID of the command line now. One of the configuration is taken out there."""
    topic = _topic(settings_of(config_file))
    ended = expired(topic.history(), id, int(time.time() * 1000))
    topic.publish_silence(ended, user())
    echo(f"{ended.id} has ended")


def _silence(lasting: str | None, until: str | None, now: int, fields: dict[str, Any]) -> Silence:
    if (lasting is None) == (until is None):
        raise ConfigError("a silence needs an end: give either --for or --until")
    begins = _time("--begins", fields.pop("begins"))
    try:
        end = at(round(begins.timestamp() * 1000 if begins else now) + parse_duration(lasting)) if lasting else None
    except ValueError as error:
        raise ConfigError(f"--for: {lasting} {error}") from None
    try:
        return Silence.model_validate({**fields, "begins": begins, "until": end or _time("--until", until)})
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise ConfigError(
            "\n".join(
                f"{'--' + str(e['loc'][0]) if e['loc'] else '--begins'}: {e['msg'].removeprefix('Value error, ')}"
                for e in found
            )
        ) from None


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ConfigError(f"{option}: {text} is no time with a zone; write for instance 2026-11-22T06:00:00+01:00")
    return time


def _topic(settings: Settings) -> ConfigTopic:
    return ConfigTopic(settings.kafka.access, settings.kafka.topics.config)
