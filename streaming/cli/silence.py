"""`flinkwatch silence` mutes notifications of matching incidents for a time; the incidents are still tracked."""

from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
import msgspec
from pydantic import ValidationError

from detectors import DETECTORS
from detectors.incident import Transition
from detectors.incidents.silences import Silence, at
from detectors.values.durations import format_duration, humanize, parse_duration
from detectors.values.name_pattern import fits
from sinks.delivery.silencing import silence_like, until_resolved_id
from streaming.cli import config_report, options
from streaming.cli.incidents import known_incidents
from streaming.cli.options import asking, config_option, json_option, settings_of, timeout_option
from streaming.configuration.effective import about
from streaming.configuration.settings import Settings
from streaming.configuration.silences import expired, listed
from streaming.errors import ConfigError, PublishedError
from streaming.terminal import UTC_CLOCK, echo, echo_json

_PATTERN = "a glob such as prod-*, or ~ and an RE2 expression"
_ANY = "*"


@click.group()
def silence() -> None:
    """Mute notifications for matching incidents. They are still tracked."""


@silence.command()
@config_option
@click.option(
    "--all", "everything", is_flag=True, help="Mute every incident of every cluster. Required if no pattern is given."
)
@click.option("--cluster", default=_ANY, help=f"Cluster name: {_PATTERN}.")
@click.option("--namespace", default=_ANY, help="Namespace, for clusters that are named namespace/app.")
@click.option("--job", default=_ANY, help="Job name.")
@click.option("--kind", "kinds", multiple=True, default=(_ANY,), help="Kind, such as restart_loop. Repeatable.")
@click.option(
    "--incident",
    "incident_id",
    metavar="INCIDENT",
    help="Open incident: mute its kind, cluster and job. Without --for or --until, until it resolves.",
)
@click.option("--for", "lasting", metavar="DURATION", help="Duration from now, or from --begins: 30m, 2h, 1d.")
@click.option("--until", metavar="TIME", help="End time, such as 2026-11-22T06:00:00+01:00.")
@click.option("--begins", metavar="TIME", help="Start time. Default: now.")
@click.option("--comment", required=True, help="Reason for the silence.")
@click.option("--author", default=options.user, help="Author of the silence. Default: user@host.")
@click.option("--json", "as_json", is_flag=True, help="Print the silence as JSON.")
@timeout_option
def add(
    config_file: Path | None,
    everything: bool,
    incident_id: str | None,
    lasting: str | None,
    until: str | None,
    as_json: bool,
    timeout: int,
    **fields: Any,
) -> None:
    """Mute notifications of matching incidents.

    An incident matches if all given patterns match; --all matches every incident; --incident replaces patterns
    by the kind, cluster and job of an open incident.

    Prints the silence's id, for `silence expire`, and the open incidents that it matches.
    """
    now = options.now()
    settings = settings_of(config_file)
    if incident_id is None:
        made = _silence(lasting, until, now, fields)
        _check_extent(about(made, made.kinds) == "everything", everything)
        _check_kinds(made)
    else:
        _check_alone(everything, fields)
        with asking(settings, timeout):
            like = known_incidents.open_incident(settings.kafka, incident_id, timeout)
        made = _silence_of_incident(like, lasting, until, now, settings.sinks.max_silence, fields)
    _check_length(made, now, settings.sinks.max_silence)
    options.say_where(settings, config_file)
    with asking(settings, timeout):
        options.topic_of(settings, timeout).publish_silence(made, options.user())
    if as_json:
        echo_json(msgspec.json.encode(made.model_dump(mode="json")))
        return
    ends = _span(made, now)
    if made.id == until_resolved_id(incident_id or ""):
        ends = f"until incident {incident_id} resolves, at the latest {ends}"
    echo(f"{made.id} silences {about(made, made.kinds)} {ends}")
    with asking(settings, timeout):
        echo(_matches_now(made, settings, timeout))


@silence.command("list")
@config_option
@json_option
@timeout_option
def list_(config_file: Path | None, as_json: bool, timeout: int) -> None:
    """Print active, pending and ended silences."""
    settings, now = settings_of(config_file), options.now()
    with asking(settings, timeout):
        history = options.topic_of(settings, timeout).history()
        found = listed(history, now, known_incidents.incidents(settings.kafka, timeout))
    if as_json:
        for one in found:
            echo_json(msgspec.json.encode(one._asdict()))
    else:
        config_report.silences(found, now)


@silence.command()
@click.argument("id")
@config_option
@timeout_option
def expire(id: str, config_file: Path | None, timeout: int) -> None:  # noqa: A002 - click names it so
    """Expire silence ID now. Silences from the configuration file must be removed in the file."""
    settings = settings_of(config_file)
    options.say_where(settings, config_file)
    with asking(settings, timeout):
        topic = options.topic_of(settings, timeout)
        ended = expired(topic.history(), id, options.now())
        topic.publish_silence(ended, options.user())
    echo(f"Ended silence {ended.id}.")


def _check_alone(everything: bool, fields: Mapping[str, Any]) -> None:
    patterns = {"--cluster": fields["cluster"], "--namespace": fields["namespace"], "--job": fields["job"]}
    given = [option for option, value in patterns.items() if value != _ANY]
    given += ["--kind"] * (fields["kinds"] != (_ANY,)) + ["--all"] * everything
    if given:
        raise ConfigError(f"--incident already names the kind, cluster and job. Remove {', '.join(given)}")


def _check_extent(is_everything: bool, everything: bool) -> None:
    if is_everything and not everything:
        raise ConfigError(
            "this would mute every incident of every cluster. Give --cluster, --namespace, --job or --kind, "
            "or --all if you want that"
        )
    if everything and not is_everything:
        raise ConfigError(
            "--all mutes everything and takes no pattern. Remove --cluster, --namespace, --job and --kind, or --all"
        )


def _check_kinds(made: Silence) -> None:
    known = sorted(d.kind for d in DETECTORS)
    for pattern in made.kinds:
        if not any(fits(pattern, kind) for kind in known):
            near = get_close_matches(pattern, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"--kind {pattern}: matches no kind of incident; {hint}allowed: {', '.join(known)}")


def _check_length(made: Silence, now: int, longest: int) -> None:
    begins, ends = made.edges()
    if ends <= now:
        raise ConfigError(f"--until: {made.until.isoformat()} has passed")
    if ends - max(begins, now) > longest:
        raise ConfigError(
            f"the silence would last longer than {format_duration(longest)} (sinks.max_silence). Extend it later, or "
            "add it to the section `silences` of the configuration file"
        )


def _span(made: Silence, now: int) -> str:
    begins, ends = made.edges()
    until = f"until {UTC_CLOCK.time(ends)}, for {humanize(ends - max(begins, now))}"
    return f"from {UTC_CLOCK.time(begins)} {until}" if begins > now else until


def _matches_now(made: Silence, settings: Settings, timeout: int) -> str:
    """Which incidents the silence matches. The silence is in force already, so a missing answer is no error."""
    kafka = settings.kafka
    try:
        found = known_incidents.incidents(kafka, timeout)
        matches = any(made.fits(t.cluster, t.job_name, t.cause) for t in found)
        seen = () if matches else known_incidents.places(kafka, timeout)
    except PublishedError as error:
        return f"The incidents that it matches could not be read: {error}"
    return known_incidents.matches_now(made, found, seen)


def _silence_of_incident(
    like: Transition, lasting: str | None, until: str | None, now: int, longest: int, fields: Mapping[str, Any]
) -> Silence:
    """Without an end, it lasts until the incident resolves: a deliverer ends it by its ID."""
    kept: dict[str, Any] = {"author": fields["author"], "comment": fields["comment"]}
    if lasting is None and until is None:
        if fields["begins"] is not None:
            raise ConfigError("--begins: a silence until the incident resolves begins now; give --for or --until, too")
        kept |= {"id": until_resolved_id(like.incident), "until": at(now + longest)}
    else:
        timed = _silence(lasting, until, now, {**kept, "begins": fields["begins"]})
        kept |= {"begins": timed.begins, "until": timed.until}
    try:
        return silence_like(like.cause, like.cluster, like.job_name, kept)
    except ValidationError as error:
        raise ConfigError(_explained(error)) from None


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
        raise ConfigError(_explained(error)) from None


def _explained(error: ValidationError) -> str:
    return "\n".join(
        f"{'--' + str(e['loc'][0]) if e['loc'] else '--begins'}: {e['msg'].removeprefix('Value error, ')}"
        for e in error.errors(include_url=False)
    )


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ConfigError(f"{option}: {text} is not a time with a zone, such as 2026-11-22T06:00:00+01:00")
    return time
