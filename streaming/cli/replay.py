"""`flinkwatch replay` shows which incidents flinkwatch would have reported for recordings and log files."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from detectors.events.reader import Reader
from detectors.incident import Transition
from detectors.settings.live import publish
from sinks.contract.link_templates import flink_ui_url
from streaming.cli import replay_report
from streaming.cli.options import config_option, settings_of
from streaming.cli.time_zone import TimeZone, ZoneOption
from streaming.configuration.known_issues import in_force, read_files
from streaming.configuration.settings import Settings
from streaming.gc_pause import gc_paused
from streaming.recordings import read_report
from streaming.recordings.inputs import InputFiles
from streaming.recordings.replay import ONE_CLUSTER_BATCH_MS, Arrived, run
from streaming.terminal import UTC_CLOCK, Clock, echo, echo_json, progress

NOT_UNDERSTOOD = 2
"""Exit status if a file has nothing that flinkwatch understands."""

_SAY_EVERY = 500
# The share of the time that it takes to look at all files before the first event.
_SURVEY = 0.2
_RUNBOOKS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="FILES...")
@config_option
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
def replay(
    paths: tuple[Path, ...],
    config_file: Path | None,
    as_json: bool,
    timeline: bool,
    time_zone: TimeZone | None,
    folder: Path | None,
) -> None:
    """Show the incidents in log files and recordings. Needs no Spark and no Kafka.

    FILES are Flink log files (plain or gzip; also as kubectl, Docker, a container runtime or `yarn logs` write
    them), recordings of Kafka records (`flinkwatch capture`), metrics pages in Prometheus format, or directories of
    these.

    Exit status: 0 if all files were understood, 2 if one of them has nothing that flinkwatch understands.
    """
    settings = settings_of(config_file)
    found = replay_report.IncidentLog()
    kept: list[Transition] = []
    with progress("reading") as show, gc_paused():
        replayed = replay_files(paths, settings, time_zone, show)
        for transition in replayed.transitions:
            if folder is not None:
                kept.append(transition)
            if as_json:
                echo_json(msgspec.json.encode(transition))
            else:
                found.take(transition)
    inputs = replayed.inputs
    if folder is not None:
        from streaming.incident_pages import of_replay, write_pages

        write_pages(folder, of_replay(kept, inputs, settings))
    failed = read_report.failures(inputs.files)
    if as_json:
        for one in failed:
            echo(f"flinkwatch: {read_report.sentence(one)}", error=True)
    else:
        _print_found(found, inputs, timeline, time_zone, partial(_links, settings.sinks.flink_ui_url))
    if folder is not None:
        echo(f"Wrote {folder / 'index.html'}.", error=as_json)
    if failed:
        sys.exit(NOT_UNDERSTOOD)


class ReplayedFiles(NamedTuple):
    """The files of a replay, and its transitions, which are made while they are taken."""

    inputs: InputFiles
    transitions: Iterator[Transition]


def replay_files(
    paths: Iterable[Path], settings: Settings, time_zone: TimeZone | None, show: Callable[[float, str], None]
) -> ReplayedFiles:
    """A replay of files under the settings of `--config`; `show` gets how far it is. Raises RecordingError."""
    reader = Reader(settings.identity, frozenset(settings.kafka.metrics))
    issues = in_force(read_files(settings.known_issues.files))
    topics, zone = settings.kafka.topics, time_zone.zone if time_zone else None
    survey = partial(_show_survey, show)
    inputs = InputFiles(paths, reader, settings.kafka.for_files, config_topic=topics.config, zone=zone, say=survey)
    transitions = run(
        _read(inputs, reader, topics.config, show),
        publish(settings.live, at=0, by="replay"),
        topics.config,
        versions=inputs.versions(),
        issues=issues,
        one_cluster_ms=ONE_CLUSTER_BATCH_MS,
    )
    return ReplayedFiles(inputs, transitions)


def _print_found(
    found: replay_report.IncidentLog,
    inputs: InputFiles,
    timeline: bool,
    zone: TimeZone | None,
    links: Callable[[Transition], replay_report.ReportLinks],
) -> None:
    clock = Clock(zone.offset if zone else inputs.zone or 0)
    incidents = found.incidents()
    files = {str(one.path) for one in inputs.files if one.log is not None}
    replay_report.print_incidents(incidents, clock, files, links)
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


def _show_survey(show: Callable[[float, str], None], share: float, file: str) -> None:
    show(_SURVEY * share, f"looking at {file}")


def _read(
    inputs: InputFiles, reader: Reader, config_topic: str, show: Callable[[float, str], None]
) -> Iterator[Arrived]:
    """Read each arrival, count it by file, and report the progress."""
    for number, (clock, file, record) in enumerate(inputs.arrivals()):
        found = [] if record is None or record.topic == config_topic else reader.read(record)
        if record is not None:
            inputs.files[file].take(record, found)
        if number % _SAY_EVERY == 0:
            show(_SURVEY + (1 - _SURVEY) * inputs.share(clock), UTC_CLOCK.time(clock))
        yield clock, record, found


def _links(flink_ui_urls: Mapping[str, str], transition: Transition) -> replay_report.ReportLinks:
    """The runbook as a path, relative to the directory in which the command runs if it is in there."""
    page, here = _RUNBOOKS / f"{transition.cause}.md", Path.cwd()
    near = page.relative_to(here) if page.is_relative_to(here) else page
    ui = flink_ui_url(flink_ui_urls, transition)
    return replay_report.ReportLinks(str(near) if page.exists() else "", ui)
