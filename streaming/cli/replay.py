"""`flinkwatch replay`: which incidents flinkwatch would have reported for recordings and log files."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from streaming.cli.options import config_option, settings_of
from streaming.terminal import echo, echo_json, status

_NOT_UNDERSTOOD = 2
_SAY_EVERY = 5_000


class _Zone(click.ParamType[Any]):
    name = "zone"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from streaming.cli.time_zone import zone_named

        try:
            return zone_named(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="FILES...")
@config_option
@click.option("--json", "as_json", is_flag=True, help="One transition a line, as in the topic flinkwatch.incidents.")
@click.option("--timeline", is_flag=True, help="Also print every change of every incident, with its reason.")
@click.option(
    "--time-zone",
    type=_Zone(),
    metavar="ZONE",
    help="Zone of times that print none, such as Europe/Berlin or +08:00. By default it is learned from the logs.",
)
def replay(paths: tuple[Path, ...], config_file: Path | None, as_json: bool, timeline: bool, time_zone: Any) -> None:
    """Show which incidents flinkwatch would have reported for FILES. Needs no Spark and no Kafka.

    FILES are log files of Flink (plain or gzip; also as kubectl, Docker, a container runtime or `yarn logs` write
    them), recordings of Kafka records (`flinkwatch capture`), metrics pages in Prometheus format, or directories of
    these.

    Exit status: 0 the files were understood, 2 nothing was understood of one of them.
    """
    from detectors.events.reader import Reader
    from detectors.settings.live import publish
    from streaming.cli import replay_report
    from streaming.job.spark.gc_pause import collector_resting
    from streaming.recordings import read_report
    from streaming.recordings.inputs import InputFiles
    from streaming.recordings.replay import run

    settings = settings_of(config_file)
    reader = Reader(settings.identity, frozenset(settings.kafka.metrics))
    topics, zone = settings.kafka.topics, time_zone.zone if time_zone else None
    scribe = replay_report.IncidentLog()
    with status("reading") as say:
        inputs = InputFiles(paths, reader, settings.kafka.for_files, config_topic=topics.config, zone=zone, say=say)
        arrived = _read(inputs, reader, topics.config, say)
        published = publish(settings.live, at=0, by="replay")
        with collector_resting():
            for transition in run(arrived, published, topics.config, versions=inputs.versions()):
                if as_json:
                    _print_json(transition)
                else:
                    scribe.take(transition)
    clock = replay_report.ReportClock(time_zone.offset if time_zone else inputs.zone or 0)
    failed = read_report.failures(inputs.files)
    if as_json:
        for one in failed:
            echo(f"flinkwatch: {read_report.sentence(one)}", error=True)
    else:
        _print_found(scribe, inputs, clock, timeline, time_zone.name if time_zone else "")
    if failed:
        sys.exit(_NOT_UNDERSTOOD)


def _print_found(scribe: Any, inputs: Any, clock: Any, timeline: bool, zone: str) -> None:
    from streaming.cli import replay_report
    from streaming.recordings import read_report

    incidents = scribe.incidents()
    files = {str(one.path) for one in inputs.files if one.log is not None}
    replay_report.print_incidents(incidents, clock, files, _runbooks({t.cause for t in incidents}))
    if timeline and scribe.timeline:
        replay_report.print_timeline(scribe.timeline, clock)
        echo("")
    for one in inputs.files:
        echo(read_report.sentence(one))
    for note in read_report.notes(inputs, clock, zone):
        echo(note)
    failed = read_report.failures(inputs.files)
    unit = "lines" if any(one.log for one in inputs.files) else "records"
    total, known = (sum(map(count, inputs.files)) for count in (read_report.lines, read_report.understood))
    count = f"{len(inputs.files)} file{'s' * (len(inputs.files) != 1)}"
    read = f"{total:,} {unit} of {count}" + (f", {known:,} understood" if unit == "lines" else "")
    if not failed or incidents:
        echo(f"Read {read}: {replay_report.conclusion(incidents)}.")
    for one in failed:
        echo(f"flinkwatch: nothing was understood of {one.path}: this is no all-clear.", error=True)


def _read(inputs: Any, reader: Any, config_topic: str, say: Callable[[str], None]) -> Iterator[Any]:
    """Reads what arrives, counts it by file, and says how far it is."""
    from streaming.cli.replay_report import UTC_CLOCK

    for number, (clock, file, record) in enumerate(inputs.arrivals()):
        found = [] if record.topic == config_topic else reader.read(record)
        inputs.files[file].take(record, found)
        if number % _SAY_EVERY == 0:
            say(f"{number:,} lines, {UTC_CLOCK.time(clock)}")
        yield clock, record, found


def _print_json(transition: Any) -> None:
    import msgspec

    echo_json(msgspec.json.encode(transition))


def _runbooks(kinds: set[str]) -> dict[str, str]:
    folder = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
    return {kind: str(_near(folder / f"{kind}.md")) for kind in kinds if (folder / f"{kind}.md").exists()}


def _near(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
