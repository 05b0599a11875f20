"""A status site with content, and requests to it without a network."""

from email.message import Message
from pathlib import Path
from typing import Any

import msgspec

from detectors.incident import Reading, Transition
from detectors.incidents.known_issues import NO_ISSUES, IssueCatalogue
from detectors.settings.live import CONFIG_KEY, LiveSettings, encode_published, publish
from sinks.prometheus.collector import IncidentCollector
from sinks.web.site.configuration import PublishedSettings
from sinks.web.site.documents import Check, LoggedNotification
from sinks.web.site.exchange import HttpRequest, HttpResponse
from sinks.web.site.settings import WebConfig
from sinks.web.site.sources import Sources
from sinks.web.site.status_site import StatusSite
from sinks.web.site.store import IncidentStore
from tests.unit.sinks.samples import OPENED_AT, make_transition

NOW = OPENED_AT + 3_600_000
DAY_MS = 86_400_000


class FilledSite:
    """`problem` and `incomplete` are what the feed would report."""

    def __init__(
        self, folder: Path, live: LiveSettings | None = None, issues: IssueCatalogue = NO_ISSUES, **config: Any
    ) -> None:
        self.store = IncidentStore(14 * DAY_MS, folder=folder, wall=lambda: NOW / 1000)
        self.store.open()
        self.collector = IncidentCollector()
        self.settings = PublishedSettings()
        published = publish(live or LiveSettings(), OPENED_AT - DAY_MS, "ann")
        self.settings.add(CONFIG_KEY, encode_published(published), NOW)
        self.problem: str | None = None
        self.incomplete: str | None = None
        self.sources = Sources(
            store=self.store,
            collector=self.collector,
            settings=self.settings,
            problem=lambda: self.problem,
            incomplete=lambda: self.incomplete,
            checks=lambda: [Check("query", None), Check("delivery", "3 on slack")],
            issues=issues,
            wall=lambda: NOW / 1000,
        )
        self.site = StatusSite(WebConfig(**config), "0.0.0.0", self.sources)

    def add(self, *transitions: Transition) -> None:
        for one in transitions:
            self.store.add(one, msgspec.json.encode(one))
        self.store.commit()

    def add_incident(self, incident: str, changes: int = 1, **fields: Any) -> None:
        """An incident with so many transitions, a minute apart."""
        for seq in range(1, changes + 1):
            at = OPENED_AT + 60_000 * (seq - 1)
            change: Any = "opened" if seq == 1 else "updated"
            self.add(make_transition(**{"incident": incident, "seq": seq, "transition": change, "at": at} | fields))

    def resolve(self, incident: str, at: int = OPENED_AT + 600_000, **fields: Any) -> None:
        self.add(make_transition(incident=incident, seq=9, transition="resolved", at=at, ended_at=at, **fields))

    def notified(self, incident: str, receiver: str = "slack", **fields: Any) -> None:
        given = {"seq": 1, "state": "sent", "at": OPENED_AT + 1_000, "reason": ""} | fields
        self.store.notified(LoggedNotification(receiver=receiver, incident=incident, **given))
        self.store.commit()

    def read(self, name: str, number: float, /, **labels: str) -> None:
        """A reading arrives."""
        reading = Reading(name=name, labels={"cluster": "prod-eu"} | labels, value=number, at=NOW)
        self.collector.show_reading(reading.key(), reading)

    def get(self, address: str, **headers: str) -> HttpResponse:
        path, _, query = address.partition("?")
        message = Message()
        for name, value in ({"Host": "localhost:9108"} | headers).items():
            message[name.replace("_", "-")] = value
        found = self.site.respond(HttpRequest(path, query, message))
        assert found is not None
        return found

    def json(self, address: str) -> Any:
        """The document at an address below /api/v1."""
        found = self.get(f"/api/v1{address}")
        assert found.status == 200, found.body
        return msgspec.json.decode(found.body)

    def html(self, address: str) -> str:
        found = self.get(address)
        assert found.status == 200, found.body
        return found.body.decode()
