"""`flinkwatch doctor` lists what may go wrong in a cluster before anything has."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from rich.text import Text

from detectors.diagnosis.diagnosis import Diagnosis, diagnose
from detectors.diagnosis.known_cluster import known_clusters
from detectors.events.reader import Reader
from detectors.incident import Reading
from detectors.settings.live import publish
from detectors.values.name_pattern import fits
from streaming.cli.incidents import known_incidents
from streaming.cli.options import (
    asking,
    cluster_option,
    config_option,
    json_option,
    settings_of,
    timeout_option,
)
from streaming.configuration.known_issues import in_force, read_files
from streaming.configuration.settings import Settings
from streaming.recordings.inputs import InputFiles
from streaming.recordings.replay import run
from streaming.terminal import echo, echo_json, print_fields

_RUNBOOKS = "docs/runbooks"


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="[FILES...]")
@config_option
@cluster_option
@click.option(
    "--all", "all_older", is_flag=True, help="Also known issues of which the first affected version is not known."
)
@json_option
@timeout_option
def doctor(
    paths: tuple[Path, ...], config_file: Path | None, cluster: str, all_older: bool, as_json: bool, timeout: int
) -> None:
    """List settings and known issues that make incidents likely. It never notifies anyone.

    Without FILES: for the clusters that the job watches, from the readings topic. With FILES, as in `flinkwatch
    replay`: for the clusters in log files and recordings.
    """
    settings = settings_of(config_file)
    if paths:
        readings = _from_files(paths, settings)
    else:
        with asking(settings, timeout):
            readings = known_incidents.readings(settings.kafka, timeout)
    issues = in_force(read_files(settings.known_issues.files))
    known = sorted(known_clusters(readings).items())
    found = [diagnose(one, issues, all_older) for name, one in known if fits(cluster, name)]
    if not found and not as_json:
        echo("No cluster is known." if cluster == "*" else f"No cluster matches {cluster}.")
    for one in found:
        if as_json:
            echo_json(msgspec.json.encode(one.document(), order="sorted"))
        else:
            print_fields(Text(_title(one), "bold"), list(rows(one)))


def rows(found: Diagnosis) -> Iterator[tuple[str, str]]:
    """The lines about a cluster."""
    for rule, seen in found.risks:
        yield "setting", f"{seen}. {rule.why}"
        yield "to do", f"{rule.to_do} ({_RUNBOOKS}/{rule.runbook}.md)"
    for issue in found.issues:
        yield "known issue", f"{issue.id}, {issue.applies}: {issue.title}; fixed in {issue.fixed_in}. {issue.link}"
    for sentence in found.unknown:
        yield "unknown", sentence
    if not (found.risks or found.issues or found.unknown):
        yield "result", "nothing found"


def _title(found: Diagnosis) -> str:
    version = f", Flink {found.cluster.version}" if found.cluster.version else ""
    count = len(found.risks) + len(found.issues)
    return f"Cluster {found.cluster.name}{version}: {count or 'no'} entr{'y' if count == 1 else 'ies'}"


def _from_files(paths: tuple[Path, ...], settings: Settings) -> list[Reading]:
    """The newest readings of a replay."""
    newest: dict[str, Reading] = {}
    reader = Reader(settings.identity, frozenset(settings.kafka.metrics))
    inputs = InputFiles(paths, reader, settings.kafka.for_files, config_topic=settings.kafka.topics.config)
    arrived = ((clock, record, [] if record is None else reader.read(record)) for clock, _, record in inputs.arrivals())
    published = publish(settings.live, at=0, by="doctor")

    def keep(readings: list[Reading]) -> None:
        newest.update((reading.key(), reading) for reading in readings)

    for _ in run(arrived, published, settings.kafka.topics.config, versions=inputs.versions(), measured=keep):
        pass
    return [*newest.values()]
