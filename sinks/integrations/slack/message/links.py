"""Links in a message: incident on the status site, Flink's web UI, runbook of the cause, dashboard, page that explains
it.
"""

from collections.abc import Mapping

import msgspec

from detectors.incident import Transition
from sinks.contract.link_templates import filled, flink_ui_url
from sinks.contract.site_links import incident_url
from sinks.contract.wording import runbook_url

_LINK_LIMIT = 700


class Links(msgspec.Struct, frozen=True):
    """The addresses in the settings; an empty address gives no link."""

    runbook_base_url: str = ""
    dashboard_url: str = ""
    explain_url: str = ""
    external_url: str = ""
    flink_ui_url: Mapping[str, str] = {}

    def of(self, transition: Transition, since: int, until: int) -> list[str]:
        """The links of an incident from `since` to `until` (epoch ms), in Slack's markup."""
        found = (
            (incident_url(self.external_url, transition.incident), "Incident"),
            (flink_ui_url(self.flink_ui_url, transition), "Flink UI"),
            (runbook_url(self.runbook_base_url, transition.cause), "Runbook"),
            (filled(self.dashboard_url, transition, since, until), "Dashboard"),
            (filled(self.explain_url, transition, since, until), "Explain"),
        )
        links = [_link(address, label) for address, label in found if address]
        return [link for link in links if len(link) <= _LINK_LIMIT]


NO_LINKS = Links()


def _link(address: str, label: str) -> str:
    return f"<{address.replace('&', '&amp;')}|{label}>"
