"""`flinkwatch replay` shows which incidents flinkwatch would have reported for recordings and log files."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click
import msgspec

from detectors.incident import Transition
from sinks.contract.link_templates import flink_ui_url
from streaming.cli import replay_report
from streaming.cli.options import config_option, settings_of
from streaming.cli.prometheus_options import MetricsServer, prometheus_options
from streaming.cli.replay_report import LinksOf
from streaming.cli.replayed_files import replaying
from streaming.cli.time_zone import TimeZone, ZoneOption
from streaming.recordings import read_report
from streaming.recordings.inputs import InputFiles
from streaming.terminal import Clock, echo, echo_json

NOT_UNDERSTOOD = 2
"""Exit status if a file has nothing that flinkwatch understands."""

_RUNBOOKS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True, allow_dash=True), metavar="[FILES]...")
@config_option
@click.option("--follow", is_flag=True, help="Keep reading as the inputs grow, and print each change. Ctrl-C ends it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON transitions, as in the topic flinkwatch.incidents.")
@click.option("--timeline", is_flag=True, help="Also print every change of every incident and its reason.")
@click.option(
    "--time-zone",
    type=ZoneOption(),
    metavar="ZONE",
    help="Time zone of log times without one: Europe/Berlin or +08:00. Default: inferred from the logs.",
)
@click.option(
    "--html",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Also write a page for each incident, and index.html with all of them, into DIR.",
)
@prometheus_options
def replay(
    paths: tuple[Path, ...],
    config_file: Path | None,
    follow: bool,
    as_json: bool,
    timeline: bool,
    time_zone: TimeZone | None,
    folder: Path | None,
    server: MetricsServer | None,
) -> None:
    """Show the incidents in log files, recordings and Prometheus. Needs no Spark and no Kafka.

    FILES are Flink log files (plain, gzip or zstd; also as kubectl, Docker, a container runtime or `yarn logs` write
    them), recordings of Kafka records (`flinkwatch capture`), metrics pages in Prometheus format, or directories of
    these; - is standard input. With --follow, log files are read on as `tail -F` does, through their rotation.

    Exit status: 0 if all files were understood, 2 if one of them has nothing that flinkwatch understands.
    """
    if not paths and server is None:
        raise click.UsageError("Name log files, or a server with --prometheus.")
    settings = settings_of(config_file)
    found = replay_report.IncidentLog()
    kept: list[Transition] = []
    links = partial(_links, settings.sinks.flink_ui_url)
    with replaying(paths, settings, time_zone, server, follow=follow) as replayed:
        for transition in replayed.transitions:
            if folder is not None:
                kept.append(transition)
            if as_json:
                echo_json(msgspec.json.encode(transition))
            else:
                found.take(transition)
            if follow:
                _show_change(transition, found, replayed.inputs, time_zone, links)
    inputs = replayed.inputs
    if folder is not None:
        from streaming.incident_pages import of_replay, write_pages

        write_pages(folder, of_replay(kept, inputs, settings))
    if as_json:
        for one in read_report.failures(inputs.files):
            echo(f"flinkwatch: {read_report.sentence(one)}", error=True)
    else:
        _print_found(found, inputs, timeline, time_zone, links)
    if folder is not None:
        echo(f"Wrote {folder / 'index.html'}.", error=as_json)
    if read_report.failures(inputs.files):
        sys.exit(NOT_UNDERSTOOD)


def _print_found(
    found: replay_report.IncidentLog, inputs: InputFiles, timeline: bool, zone: TimeZone | None, links: LinksOf
) -> None:
    clock = _clock(inputs, zone)
    incidents = found.incidents()
    replay_report.print_incidents(incidents, clock, _log_files(inputs), links)
    if timeline and found.timeline:
        replay_report.print_timeline(found.timeline, clock)
        echo("")
    for one in inputs.files:
        echo(read_report.sentence(one))
    for note in read_report.notes(inputs, clock, zone.name if zone else ""):
        echo(note)
    failed = read_report.failures(inputs.files)
    if not failed or incidents:
        echo(f"Read {read_report.total(inputs.files)}: {replay_report.conclusion(incidents)}.")
    for one in failed:
        echo(f"flinkwatch: nothing in {one.path} was understood, so incidents in it may be missed.", error=True)


def _show_change(
    t: Transition, found: replay_report.IncidentLog, inputs: InputFiles, zone: TimeZone | None, links: LinksOf
) -> None:
    """Print a change when it happens: a new incident completely, any other change as a line of the timeline."""
    if found.timeline:
        clock = _clock(inputs, zone)
        if t.transition == "opened":
            replay_report.print_incidents([t], clock, _log_files(inputs), links, live=True)
        else:
            replay_report.print_timeline(found.timeline[-1:], clock)
    sys.stdout.flush()


def _clock(inputs: InputFiles, zone: TimeZone | None) -> Clock:
    return Clock(zone.offset if zone else inputs.zone or 0)


def _log_files(inputs: InputFiles) -> set[str]:
    return {str(one.path) for one in inputs.files if one.log is not None}


def _links(flink_ui_urls: Mapping[str, str], transition: Transition) -> replay_report.ReportLinks:
    """The runbook as a path, relative to the directory in which the command runs if it is in there."""
    page, here = _RUNBOOKS / f"{transition.cause}.md", Path.cwd()
    near = page.relative_to(here) if page.is_relative_to(here) else page
    ui = flink_ui_url(flink_ui_urls, transition)
    return replay_report.ReportLinks(str(near) if page.exists() else "", ui)
