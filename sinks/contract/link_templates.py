"""Addresses with placeholders, filled from an incident: dashboards, log searches, Flink's web UI."""

import re
from collections.abc import Mapping
from string import Formatter
from typing import Annotated
from urllib.parse import quote

from pydantic import AfterValidator

from detectors.incident import Transition
from detectors.values.name_pattern import Pattern, fits

PLACES = ("cluster", "job", "job_id", "kind", "tm", "host", "incident", "from", "to")
"""Placeholders that an address may contain in braces."""

# `<`, `>` and `|` are not allowed, because they end a link in Slack.
_ADDRESS = re.compile(r"https?://[^\s<>|]{1,2000}")
_NAME_LIMIT = 200
# The dashboard also shows the time before and after the incident.
_BEFORE_MS, _AFTER_MS = 1_800_000, 600_000
# A browser takes these for the folder itself and the one above it, also if they are quoted.
_DOTS = (".", "..")


def check_template(template: str) -> str:
    """The template itself. Raises ValueError if the address or its placeholders are not valid."""
    if not template:
        return template
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
    return template


LinkTemplate = Annotated[str, AfterValidator(check_template)]
"""An http(s) address in which `PLACES` are replaced; empty for no link."""

FlinkUiUrls = Mapping[Pattern, LinkTemplate]
"""The template of Flink's web UI by a pattern for the cluster's name; the first that matches is used."""

NO_FLINK_UI: Mapping[str, str] = {}


def filled(template: str, transition: Transition, since: int = 0, until: int = 0) -> str:
    """The address for an incident from `since` to `until` (epoch ms); empty if a value that it needs is not known.

    Every value is quoted, so it cannot change the host or the path.
    """
    values = {
        "cluster": transition.cluster,
        "job": transition.job_name or transition.job_id,
        "job_id": transition.job_id,
        "kind": transition.cause,
        "tm": _of_findings(transition, "tm_id"),
        "host": _of_findings(transition, "host"),
        "incident": transition.incident,
        "from": str(max(0, since - _BEFORE_MS)),
        "to": str(max(0, until + _AFTER_MS)),
    }
    needed = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
    if any(not values[name] or values[name] in _DOTS for name in needed):
        return ""
    return template.format_map({name: _quoted(value) for name, value in values.items()})


def flink_ui_url(templates: Mapping[str, str], transition: Transition) -> str:
    """The address of the incident's job, or of its cluster, in Flink's web UI; empty without one."""
    found = next((template for pattern, template in templates.items() if fits(pattern, transition.cluster)), "")
    return filled(found, transition)


def _of_findings(transition: Transition, key: str) -> str:
    """What the cause names, else what another finding names."""
    cause_first = sorted(transition.findings, key=lambda finding: finding.kind != transition.cause)
    return next((finding.entity[key] for finding in cause_first if finding.entity.get(key)), "")


def _quoted(name: str) -> str:
    return quote(name[:_NAME_LIMIT], safe="", errors="replace")
