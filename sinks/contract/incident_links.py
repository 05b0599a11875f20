"""Links in a message: incident on the status site, Flink's web UI, runbook of the cause, dashboard, page that explains
it.
"""

from collections.abc import Mapping

import msgspec

from detectors.incident import Transition
from sinks.contract.link_templates import NO_FLINK_UI, filled, flink_ui_url
from sinks.contract.site_links import incident_url
from sinks.contract.wording import runbook_url


class IncidentLinks(msgspec.Struct, frozen=True):
    """The addresses in the settings; an empty address gives no link."""

    runbook_base_url: str = ""
    dashboard_url: str = ""
    explain_url: str = ""
    external_url: str = ""
    flink_ui_url: Mapping[str, str] = NO_FLINK_UI

    def addresses(self, transition: Transition, since: int, until: int) -> list[tuple[str, str]]:
        """Label and address of each link of an incident from `since` to `until` (epoch ms)."""
        found = [
            ("Incident", incident_url(self.external_url, transition.incident)),
            ("Flink UI", flink_ui_url(self.flink_ui_url, transition)),
            ("Runbook", runbook_url(self.runbook_base_url, transition.cause)),
            ("Dashboard", filled(self.dashboard_url, transition, since, until)),
            ("Explain", filled(self.explain_url, transition, since, until)),
        ]
        return [(label, address) for label, address in found if address]
