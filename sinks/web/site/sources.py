"""Where the status site has its content from."""

import time
from collections.abc import Callable, Mapping

import msgspec

from detectors.incident import Reading
from detectors.incidents.known_issues import NO_ISSUES, IssueCatalogue
from sinks.contract.link_templates import NO_FLINK_UI
from sinks.prometheus.collector import IncidentCollector
from sinks.web.site.configuration import PublishedSettings
from sinks.web.site.documents import Check
from sinks.web.site.store import IncidentStore


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """`problem` and `incomplete` are those of the feed; `checks` are those of /-/ready; `wall` gives epoch seconds."""

    store: IncidentStore
    collector: IncidentCollector
    settings: PublishedSettings
    problem: Callable[[], str | None]
    incomplete: Callable[[], str | None]
    checks: Callable[[], list[Check]] = list
    runbook_base_url: str = ""
    flink_ui_url: Mapping[str, str] = NO_FLINK_UI
    issues: IssueCatalogue = NO_ISSUES
    wall: Callable[[], float] = time.time

    def now_ms(self) -> int:
        return int(self.wall() * 1000)

    def readings(self, cluster: str) -> list[Reading]:
        return self.collector.readings_of(cluster)

    def clusters(self) -> Mapping[str, int]:
        """The clusters with readings, and how many each has."""
        return self.collector.readings_by_cluster()
