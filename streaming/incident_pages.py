"""Pages of incidents with what is known beyond their transitions: of a replay, and of the topics of a running job."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from detectors.incident import Transition
from detectors.settings.live import LiveSettings
from sinks.web.incident_index import render_index
from sinks.web.incident_page import render_incident
from sinks.web.page_context import PageContext, SentNotification, by_id, earlier_incidents
from sinks.web.thresholds import thresholds_of
from streaming.configuration.settings import Settings
from streaming.errors import ReportError
from streaming.recordings import read_report
from streaming.recordings.inputs import InputFiles

_SHOWN = 10


class IncidentSet(msgspec.Struct, kw_only=True):
    """The transitions of incidents by ID, each oldest first, and what their pages have in common.

    `files` are the log files that evidence may name, `read` sentences on what was read, `live` the settings that may
    have been in force.
    """

    found: dict[str, list[Transition]]
    live: Sequence[LiveSettings] = ()
    files: frozenset[str] = frozenset()
    read: Sequence[str] = ()
    runbook_base_url: str = ""
    flink_ui_url: Mapping[str, str] = {}

    def context(
        self, incident: str, *, linked: bool = False, notifications: Sequence[SentNotification] = ()
    ) -> PageContext:
        """What the page of an incident shows beyond its transitions; `linked`: next to the pages of the others."""
        last = self.found[incident][-1]
        thresholds = (thresholds_of(live, last) for live in self.live)
        return PageContext(
            earlier=earlier_incidents(self.found, last),
            notifications=notifications,
            thresholds=next((found for found in thresholds if found), []),
            files=self.files,
            incident_address="{incident}.html" if linked else "",
            runbook_base_url=self.runbook_base_url,
            flink_ui_url=self.flink_ui_url,
            navigation=[("All incidents", "index.html")] if linked else (),
        )

    def only(self, chosen: str = "") -> str:
        """The ID of the incident that is meant: the one that begins with `chosen`, or the only one.

        Raises ReportError if there is none or more than one.
        """
        fitting = [name for name in self.found if name.startswith(chosen)]
        if not chosen:
            fitting = [name for name in fitting if not self.found[name][-1].part_of]
        if len(fitting) == 1:
            return fitting[0]
        if not self.found:
            raise ReportError("no incident was found")
        named = fitting or list(self.found)
        lines = [f"{name}: {self.found[name][-1].cause}: {self.found[name][-1].summary}" for name in named[:_SHOWN]]
        more = [f"and {len(named) - _SHOWN} more"] if len(named) > _SHOWN else []
        head = f"no incident {chosen}; there are" if not fitting else "several incidents; name one of them (--incident)"
        raise ReportError("\n".join([f"{head}:", *lines, *more]))


def of_replay(transitions: Sequence[Transition], inputs: InputFiles, settings: Settings) -> IncidentSet:
    """The incidents of a replay."""
    return IncidentSet(
        found=by_id(transitions),
        live=[settings.live],
        files=frozenset(str(one.path) for one in inputs.files if one.log is not None),
        read=[read_report.sentence(one) for one in inputs.files],
        runbook_base_url=settings.sinks.slack.runbook_base_url,
        flink_ui_url=settings.sinks.flink_ui_url,
    )


def write_pages(folder: Path, incidents: IncidentSet) -> None:
    """A page for each incident, and `index.html` with links to them. Raises ReportError if they cannot be written."""
    index = render_index(incidents.found, PageContext(incident_address="{incident}.html"), incidents.read)
    pages = {
        f"{incident}.html": render_incident(transitions, incidents.context(incident, linked=True))
        for incident, transitions in incidents.found.items()
    }
    for name, html in (pages | {"index.html": index}).items():
        write_text(folder / name, html)


def write_text(path: Path, text: str) -> None:
    """A file of that text; missing folders are made. Raises ReportError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror or error}") from error
