"""`flinkwatch incident export` writes the records around an incident as a scenario."""

import tempfile
from pathlib import Path

import click

from sinks.contract.wording import kind_words
from streaming.cli.incidents.explain import found_in_topic
from streaming.cli.options import Duration, config_option, settings_of, timeout_option
from streaming.inspection.export import ExportError, anonymised, last_of_each, own_records, read_key, write_scenario
from streaming.inspection.recomputation import span_of
from streaming.recordings.capture import capture
from streaming.terminal import echo, status


@click.command()
@click.argument("incident_id", metavar="INCIDENT")
@config_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to write. It must not exist.",
)
@click.option(
    "--anonymise",
    "key_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="KEYFILE",
    help="Replace hosts, jobs, IDs and paths by others of the same shape. The same secret gives the same names.",
)
@click.option(
    "--history",
    type=Duration(),
    default="2h",
    show_default=True,
    help="How long before the first symptom the records begin.",
)
@click.option(
    "--records", type=click.IntRange(min=1), default=500_000, show_default=True, help="No more records are read."
)
@timeout_option
def export(
    incident_id: str,
    config_file: Path | None,
    out: Path,
    key_file: Path | None,
    history: int,
    records: int,
    timeout: int,
) -> None:
    """Write the records around INCIDENT as a folder that `flinkwatch replay` reads.

    The folder has input.jsonl, README.md and expected.yaml, as the scenarios among flinkwatch's tests.
    """
    settings = settings_of(config_file)
    key = read_key(key_file) if key_file is not None else None
    if out.exists():
        raise ExportError(f"{out} exists; choose another folder")
    stored = found_in_topic(settings, incident_id, timeout)
    cluster = stored[-1].cluster
    span = span_of(stored, history, 2 * history)
    with tempfile.TemporaryDirectory(prefix="flinkwatch-") as folder, status("reading the records") as say:
        file = Path(folder) / "records.jsonl.gz"
        capture(
            settings.kafka,
            span.begin,
            file,
            lambda done, of: say(f"{done:,} of {of:,} records"),
            until=span.end,
            most=records,
        )
        found = own_records(settings, file, cluster)
        if key is not None:
            found, names = anonymised(settings, found, cluster, key)
            cluster = names.learned(cluster)
        reported = last_of_each(write_scenario(settings, found, cluster, out))
    causes = ", ".join(kind_words(t.cause) for t in reported) or "no incident"
    echo(f"{out}: {len(found):,} records. A replay of them reports: {causes}.")
    if stored[-1].cause not in {t.cause for t in reported}:
        echo(f"Warning: the replay does not report {stored[-1].cause}. Try a longer --history.", error=True)
