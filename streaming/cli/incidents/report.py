"""`flinkwatch report` writes the page or the post-mortem of an incident."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from streaming.cli.options import asking, config_option, history_of, settings_of, timeout_option
from streaming.cli.replay import NOT_UNDERSTOOD
from streaming.cli.replayed_files import replaying
from streaming.cli.time_zone import TimeZone, ZoneOption
from streaming.configuration.settings import Settings
from streaming.errors import PublishedError, ReportError
from streaming.incident_pages import IncidentSet, of_replay, write_pages, write_text
from streaming.recordings import read_report
from streaming.terminal import echo

if TYPE_CHECKING:
    from sinks.web.page_context import SentNotification

_INCIDENT = re.compile(r"[0-9a-f]{6,64}")


@click.command(short_help="Write the page of an incident as one HTML file.")
@click.argument("sources", nargs=-1, required=True, metavar="FILES...|INCIDENT")
@config_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="File to write, or a directory for a page of each incident and index.html. Default: standard output.",
)
@click.option("--incident", default="", metavar="ID", help="Which incident of FILES, if they show several.")
@click.option("--markdown", is_flag=True, help="Write a post-mortem as Markdown, with the actions left blank.")
@click.option(
    "--time-zone",
    type=ZoneOption(),
    metavar="ZONE",
    help="Time zone of log times without one: Europe/Berlin or +08:00. Default: inferred from the logs.",
)
@timeout_option
def report(
    sources: tuple[str, ...],
    config_file: Path | None,
    out: Path | None,
    incident: str,
    markdown: bool,
    time_zone: TimeZone | None,
    timeout: int,
) -> None:
    """Write the page of an incident: one HTML file that needs no network.

    FILES are what `flinkwatch replay` reads. INCIDENT is the ID of an incident in the topic flinkwatch.incidents, as
    in the last line of its message; Kafka keeps all of its changes until its topic is compacted.

    Exit status: 0 if it was written, 1 if there is no such incident or more than one, 2 if a file was not understood.
    """
    settings = settings_of(config_file)
    if len(sources) == 1 and not Path(sources[0]).exists() and _INCIDENT.fullmatch(sources[0]):
        incidents, chosen, notifications = _stored(sources[0], settings, timeout)
        _write(incidents, chosen, out, markdown, notifications)
        return
    incidents, understood = _replayed(sources, settings, time_zone)
    if out is not None and not markdown and not incident and _is_folder(out):
        write_pages(out, incidents)
        echo(f"Wrote {out / 'index.html'}.", error=True)
    else:
        _write(incidents, incident, out, markdown, [])
    if not understood:
        sys.exit(NOT_UNDERSTOOD)


def _write(
    incidents: IncidentSet,
    incident: str,
    out: Path | None,
    markdown: bool,
    notifications: "list[SentNotification]",
) -> None:
    from sinks.web.incident_page import render_incident
    from sinks.web.post_mortem import post_mortem

    chosen = incidents.only(incident)
    context = incidents.context(chosen, notifications=notifications)
    text = (post_mortem if markdown else render_incident)(incidents.found[chosen], context)
    if out is None:
        echo(text, newline=False)
        return
    file = out / f"{chosen}.{'md' if markdown else 'html'}" if _is_folder(out) else out
    write_text(file, text)
    echo(f"Wrote {file}.", error=True)


def _is_folder(out: Path) -> bool:
    return out.is_dir() or (not out.exists() and not out.suffix)


def _replayed(sources: tuple[str, ...], settings: Settings, time_zone: TimeZone | None) -> tuple[IncidentSet, bool]:
    """The incidents of files, and whether every file was understood."""
    paths = [Path(source) for source in sources]
    if missing := [path for path in paths if not path.exists()]:
        raise ReportError(f"{missing[0]}: no such file, and not the ID of an incident (hex digits, as in its message)")
    with replaying(paths, settings, time_zone) as replayed:
        transitions = list(replayed.transitions)
    failed = read_report.failures(replayed.inputs.files)
    for one in failed:
        echo(f"flinkwatch: {read_report.sentence(one)}", error=True)
    return of_replay(transitions, replayed.inputs, settings), not failed


def _stored(incident: str, settings: Settings, timeout: int) -> "tuple[IncidentSet, str, list[SentNotification]]":
    """The incidents of the topic, the ID of the one that is meant, and what was sent of it."""
    from streaming.stored_incidents import stored_transitions
    from streaming.stored_notifications import stored_notifications

    with asking(settings, timeout):
        incidents = IncidentSet(
            found=stored_transitions(settings.kafka, timeout),
            runbook_base_url=settings.sinks.slack.runbook_base_url,
            flink_ui_url=settings.sinks.flink_ui_url,
        )
        chosen = incidents.only(incident)
        try:
            notifications = stored_notifications(settings.kafka, timeout, chosen)
            published = history_of(settings, timeout).configurations
        except PublishedError as error:
            # The incident itself is known; a page without these is better than none.
            echo(f"flinkwatch: {error}", error=True)
            notifications, published = [], []
    live = [settings.live, *(one.live() for one in reversed(published))]
    return msgspec.structs.replace(incidents, live=live), chosen, notifications
