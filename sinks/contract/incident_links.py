"""Links in a message: incident on the status site, runbook of the cause, dashboard, page that explains it."""

import re
from string import Formatter
from urllib.parse import quote

import msgspec

from detectors.incident import Transition
from sinks.contract.site_links import incident_url
from sinks.contract.wording import runbook_url

PLACES = ("cluster", "job", "incident", "from", "to")
"""Placeholders that an address may contain in braces."""

# `<`, `>` and `|` are not allowed, because they end a link in Slack.
_ADDRESS = re.compile(r"https?://[^\s<>|]{1,2000}")
_NAME_LIMIT = 200
# The dashboard also shows the time before and after the incident.
_BEFORE_MS, _AFTER_MS = 1_800_000, 600_000


def check_template(template: str) -> None:
    """Raises ValueError if an address or its placeholders are not valid."""
    if not _ADDRESS.fullmatch(template):
        raise ValueError("must be an http(s) address without blanks, <, > and |")
    try:
        places = [place[1:] for place in Formatter().parse(template) if place[1] is not None]
    except ValueError:
        raise ValueError("has a { or } that is not part of a placeholder such as {job}") from None
    unknown = [name for name, spec, conversion in places if name not in PLACES or spec or conversion]
    if unknown:
        allowed = ", ".join(f"{{{name}}}" for name in PLACES)
        raise ValueError(f"unknown placeholder {{{unknown[0]}}}; allowed: {allowed}")


class IncidentLinks(msgspec.Struct, frozen=True):
    """The addresses in the settings; an empty address gives no link."""

    runbook_base_url: str = ""
    dashboard_url: str = ""
    explain_url: str = ""
    external_url: str = ""

    def addresses(self, transition: Transition, since: int, until: int) -> list[tuple[str, str]]:
        """Label and address of each link of an incident from `since` to `until` (epoch ms)."""
        values = {
            "cluster": _quoted(transition.cluster),
            "job": _quoted(transition.job_name or transition.job_id),
            "incident": _quoted(transition.incident),
            "from": str(max(0, since - _BEFORE_MS)),
            "to": str(max(0, until + _AFTER_MS)),
        }
        found = [
            ("Incident", incident_url(self.external_url, transition.incident)),
            ("Runbook", runbook_url(self.runbook_base_url, transition.cause)),
            ("Dashboard", self.dashboard_url.format_map(values)),
            ("Explain", self.explain_url.format_map(values)),
        ]
        return [(label, address) for label, address in found if address]


def _quoted(name: str) -> str:
    return quote(name[:_NAME_LIMIT], safe="", errors="replace")
