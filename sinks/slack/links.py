"""Addresses that a message leads to: the runbook of its cause, the dashboard at its time, the command that explains."""

import re
from string import Formatter
from urllib.parse import quote

from detectors.incidents.incident import Transition

_PLACES = frozenset({"cluster", "job", "from", "to"})
# Also no `<`, `>`, `|`: they end a link of Slack's.
_ADDRESS = re.compile(r"https?://[^\s<>|]{1,2000}")
_KIND = re.compile(r"[a-z0-9_]{1,80}")
# What led to it, and what came of it.
_BEFORE_MS, _AFTER_MS = 1_800_000, 600_000


def check_template(template: str) -> None:
    """Raises ValueError that says what is wrong with a dashboard's address."""
    if not _ADDRESS.fullmatch(template):
        raise ValueError("must be an http(s) address without blanks, <, > and |")
    try:
        places = [place[1:] for place in Formatter().parse(template) if place[1] is not None]
    except ValueError:
        raise ValueError("has a { or } that is not part of {cluster}, {job}, {from} or {to}") from None
    unknown = [name for name, spec, conversion in places if name not in _PLACES or spec or conversion]
    if unknown:
        raise ValueError(f"cannot fill {{{unknown[0]}}}: there are {{cluster}}, {{job}}, {{from}} and {{to}}")


def runbook(base_url: str, transition: Transition) -> str:
    """The runbook of the cause as a link, empty when there is none."""
    if not base_url or not _KIND.fullmatch(transition.cause):
        return ""
    return _link(f"{base_url.rstrip('/')}/{transition.cause}", "Runbook")


def dashboard(template: str, transition: Transition, since: int, until: int) -> str:
    """The dashboard as a link, from a while before `since` to a while after `until` (epoch ms); empty when there is
    no template.
    """
    if not template:
        return ""
    values = {
        "cluster": quote(transition.cluster[:200], safe="", errors="replace"),
        "job": quote((transition.job_name or transition.job_id)[:200], safe="", errors="replace"),
        "from": str(max(0, since - _BEFORE_MS)),
        "to": str(max(0, until + _AFTER_MS)),
    }
    return _link(template.format_map(values), "Dashboard")


def _link(address: str, label: str) -> str:
    return f"<{address.replace('&', '&amp;')}|{label}>"
