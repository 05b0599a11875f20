"""`flinkwatch routes`: who would be notified of an incident, and when."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from detectors import DETECTORS
from detectors.incident import SEVERITIES, Severity, Transition
from sinks.contract.wording import moment
from sinks.routing import Route, Routing
from streaming.cli import options
from streaming.cli.options import PastTime, config_option, json_option, settings_of
from streaming.terminal import echo, echo_json


class RoutedTo(msgspec.Struct, frozen=True):
    """A receiver that is notified: `until` is the end of the quiet hours in force (epoch ms), None if it is at once."""

    receiver: str
    because: str
    until: int | None


@click.command(short_help="Show which receivers would be notified.")
@click.option("--for", "place", required=True, metavar="CLUSTER[/JOB]", help="Cluster, or cluster and job.")
@click.option("--severity", type=click.Choice(SEVERITIES), default="critical", show_default=True)
@click.option(
    "--kind",
    type=click.Choice(sorted(detector.kind for detector in DETECTORS)),
    default="job_failed",
    show_default=True,
    metavar="KIND",
    help="Kind of the cause.",
)
@click.option("--at", type=PastTime(), help="Time of the incident, which quiet hours depend on. Default: now.")
@config_option
@json_option
def routes(place: str, severity: Severity, kind: str, at: int | None, config_file: Path | None, as_json: bool) -> None:
    """Show which receivers would be notified of an incident, by which route, now or after quiet hours."""
    sinks = settings_of(config_file).sinks
    when = options.now() if at is None else at
    cluster, _, job = place.partition("/")
    incident = _incident(cluster, job, kind, severity, when)
    found = list(_receivers(sinks.routing, incident, sinks.enabled()))
    if as_json:
        echo_json(msgspec.json.encode(found))
        return
    where = f"{cluster}/{job}" if job else cluster
    echo(f"{severity} {kind} in {where} at {moment(when)}:")
    if not found:
        echo("  no one is notified")
    for one in found:
        time = "now" if one.until is None else f"after quiet hours, at {moment(one.until)}"
        echo(f"  {one.receiver}: {time} ({one.because})")


def _incident(cluster: str, job: str, kind: str, severity: Severity, at: int) -> Transition:
    return Transition(
        incident="",
        seq=1,
        transition="opened",
        at=at,
        cluster=cluster,
        job_name=job,
        cause=kind,
        severity=severity,
        summary="",
        findings=[],
        evidence=[],
    )


def _receivers(routing: Routing, incident: Transition, enabled: tuple[str, ...]) -> Iterator[RoutedTo]:
    indexes, by_default = routing.applied(incident)
    reasons: dict[str, str] = {}
    for index in indexes:
        route = routing.routes[index]
        for receiver in route.to:
            reasons.setdefault(receiver, f"route {index + 1}: {_conditions(route)}")
    if by_default:
        for receiver in routing.defaults(enabled):
            reasons.setdefault(receiver, "the default, because no route matches")
    now = datetime.fromtimestamp(incident.at / 1000, tz=UTC)
    for receiver, because in reasons.items():
        until = routing.quiet_until(receiver, incident, now)
        yield RoutedTo(receiver, because, None if until is None else round(until.timestamp() * 1000))


def _conditions(route: Route) -> str:
    """What the route asks for, without what matches everything."""
    asked = {"cluster": route.cluster, "job": route.job, "kinds": ", ".join(route.kinds)}
    words = [f"{name} {pattern}" for name, pattern in asked.items() if pattern != "*"]
    return ", ".join([*words, f"severity {route.severity} or higher"] if route.severity != "info" else words) or "all"
