"""The links of a message in Slack's markup."""

from detectors.incident import Transition
from sinks.contract.incident_links import IncidentLinks

_LINK_LIMIT = 700


class Links(IncidentLinks, frozen=True):
    """The addresses in the settings; an empty address gives no link."""

    def of(self, transition: Transition, since: int, until: int) -> list[str]:
        """The links of an incident from `since` to `until` (epoch ms), in Slack's markup."""
        found = [_link(address, label) for label, address in self.addresses(transition, since, until)]
        return [link for link in found if len(link) <= _LINK_LIMIT]


NO_LINKS = Links()


def _link(address: str, label: str) -> str:
    return f"<{address.replace('&', '&amp;')}|{label}>"
