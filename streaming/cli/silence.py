"""`flinkwatch silence`: incidents that are tracked while notifications are muted, for a time."""

import time
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from streaming.cli.options import (
    asking,
    config_option,
    config_path,
    json_option,
    say_where,
    settings_of,
    timeout_option,
    user,
)
from streaming.errors import ConfigError, PublishedError
from streaming.terminal import echo, echo_json

_PATTERN = "a glob such as prod-*, or ~ and an RE2 expression"
_ANY = "*"


@click.group()
def silence() -> None:
    """Mute notifications for matching incidents. They are still tracked."""


@silence.command()
@config_option
@click.option(
    "--all", "everything", is_flag=True, help="Mute every incident of every cluster; needed without a pattern."
)
@click.option("--cluster", default=_ANY, help=f"Cluster: {_PATTERN}.")
@click.option("--namespace", default=_ANY, help="Namespace, if clusters are named namespace/app.")
@click.option("--job", default=_ANY, help="Name of the job.")
@click.option("--kind", "kinds", multiple=True, default=(_ANY,), help="Kind of the cause; may be given several times.")
@click.option("--for", "lasting", metavar="DURATION", help="Duration, counted from now or from --begins: 30m, 2h, 1d.")
@click.option("--until", metavar="TIME", help="End, such as 2026-11-22T06:00:00+01:00.")
@click.option("--begins", metavar="TIME", help="Beginning; defaults to now.")
@click.option("--comment", required=True, help="Reason.")
@click.option("--author", default=user, help="Author; defaults to you.")
@click.option("--json", "as_json", is_flag=True, help="Print the silence as JSON.")
@timeout_option
def add(
    config_file: Path | None,
    everything: bool,
    lasting: str | None,
    until: str | None,
    as_json: bool,
    timeout: int,
    **fields: Any,
) -> None:
    """Mute incidents that match all given patterns, or with --all every incident.

    Prints the id with which `silence expire` ends it, and which open incidents it matches now.
    """
    from streaming.configuration.effective import about

    now = int(time.time() * 1000)
    made = _silence(lasting, until, now, fields)
    match = about(made, made.kinds)
    _check_extent(match == "everything", everything)
    _check_kinds(made)
    settings = settings_of(config_file)
    _check_length(made, now, settings.sinks.max_silence)
    say_where(settings, config_path(config_file))
    with asking(settings, timeout):
        _topic(settings, timeout).publish_silence(made, user())
    if as_json:
        import msgspec

        echo_json(msgspec.json.encode(made.model_dump(mode="json")))
        return
    echo(f"{made.id} silences {match} {_span(made, now)}")
    with asking(settings, timeout):
        echo(_matches_now(made, settings, timeout))


@silence.command("list")
@config_option
@json_option
@timeout_option
def list_(config_file: Path | None, as_json: bool, timeout: int) -> None:
    """Print the silences of the configuration and of the command line: active, pending and ended."""
    from streaming.cli import config_report
    from streaming.cli.silenced_incidents import incidents
    from streaming.configuration.silences import listed

    settings = settings_of(config_file)
    now = int(time.time() * 1000)
    with asking(settings, timeout):
        history = _topic(settings, timeout).history()
        found = listed(history, now, incidents(settings.kafka, timeout))
    if as_json:
        import msgspec

        for one in found:
            echo_json(msgspec.json.encode(one._asdict()))
    else:
        config_report.silences(found, now)


@silence.command()
@click.argument("id")
@config_option
@timeout_option
def expire(id: str, config_file: Path | None, timeout: int) -> None:  # noqa: A002 - click names it so
    """End the silence ID, created with `silence add`. Silences from the configuration file must be removed there."""
    from streaming.configuration.silences import expired

    settings = settings_of(config_file)
    say_where(settings, config_path(config_file))
    with asking(settings, timeout):
        topic = _topic(settings, timeout)
        ended = expired(topic.history(), id, int(time.time() * 1000))
        topic.publish_silence(ended, user())
    echo(f"Ended silence {ended.id}.")


def _check_extent(is_everything: bool, everything: bool) -> None:
    if is_everything and not everything:
        raise ConfigError(
            "this would mute every incident of every cluster: give --cluster, --namespace, --job or --kind, "
            "or --all if that is what you want"
        )
    if everything and not is_everything:
        raise ConfigError(
            "--all mutes everything: leave out --cluster, --namespace, --job and --kind, or leave out --all"
        )


def _check_kinds(made: Any) -> None:
    from detectors import DETECTORS
    from detectors.values.name_pattern import fits

    known = sorted(d.kind for d in DETECTORS)
    for pattern in made.kinds:
        if not any(fits(pattern, kind) for kind in known):
            near = get_close_matches(pattern, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"--kind {pattern}: matches no kind of incident; {hint}there are: {', '.join(known)}")


def _check_length(made: Any, now: int, longest: int) -> None:
    from detectors.values.durations import format_duration

    begins, ends = made.edges()
    if ends <= now:
        raise ConfigError(f"--until: {made.until.isoformat()} has passed")
    if ends - max(begins, now) > longest:
        raise ConfigError(
            f"{'--for' if begins <= now else '--until'}: a silence may last {format_duration(longest)} at most "
            "(sinks.max_silence); extend it later, or put it into the section `silences` of the configuration file"
        )


def _span(made: Any, now: int) -> str:
    """When it ends, and in how long."""
    from detectors.values.durations import humanize
    from streaming.cli.config_report import clock

    begins, ends = made.edges()
    if begins > now:
        return f"from {clock(begins)} until {clock(ends)}, for {humanize(ends - begins)}"
    return f"until {clock(ends)}, for {humanize(ends - now)}"


def _matches_now(made: Any, settings: Any, timeout: int) -> str:
    """What it matches. It is in force already, so an answer that does not come is no error."""
    from streaming.cli.silenced_incidents import incidents, matches_now, places

    try:
        found = incidents(settings.kafka, timeout)
        seen = () if any(made.fits(t.cluster, t.job_name, t.cause) for t in found) else places(settings.kafka, timeout)
    except PublishedError as error:
        return f"Which incidents it matches is not known: {error}"
    return matches_now(made, found, seen)


def _silence(lasting: str | None, until: str | None, now: int, fields: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    from detectors.incidents.silences import Silence, at
    from detectors.values.durations import parse_duration

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


def _topic(settings: Any, timeout: int) -> Any:
    from streaming.configuration.topic import ConfigTopic

    return ConfigTopic(settings.kafka.access, settings.kafka.topics.config, timeout)
