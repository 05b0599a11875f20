"""The delivery loops: incidents and readings from Kafka to every receiver and to the metrics page.

Each receiver has a thread with a DeliveryWorker, and so have the metrics page and the status site, so that none of them
delays another.
Offsets are committed after delivery. A record whose commit was lost comes again, and the notification log says that it
was sent. If Kafka does not answer, a thread waits and starts again.
"""

import threading
import time
from collections.abc import Callable
from functools import partial

import structlog
from kafka.errors import KafkaError

from detectors.incidents.known_issues import NO_ISSUES, IssueCatalogue
from sinks.contract.receiver import Receiver
from sinks.contract.sink import EditingSink
from sinks.delivery.slack_actions import SlackActions
from sinks.delivery.worker import deliver_incidents
from sinks.in_force import SinksInForce
from sinks.kafka.access import KafkaAccess
from sinks.kafka.clients import Clients
from sinks.kafka.diagnosis import explain
from sinks.kafka.topics import TopicNames
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.feed import CollectorFeed
from sinks.prometheus.http_server import StatusServer
from sinks.prometheus.reload_metrics import SettingInfo
from sinks.receivers import make_receivers
from sinks.secret import SecretError
from sinks.settings import Sinks
from sinks.web.site.configuration import PublishedSettings
from sinks.web.site.documents import Check
from sinks.web.site.feed import SiteFeed
from sinks.web.site.guard import check_secrets
from sinks.web.site.sources import Sources
from sinks.web.site.status_site import StatusSite
from sinks.web.site.store import IncidentStore

log = structlog.get_logger()

DRAIN_S = 10.0
"""How long `stop` continues to send what is due."""

_JOIN_S = DRAIN_S + 20.0
_RESTART_FIRST_S, _RESTART_MAX_S = 1.0, 30.0
# A thread that has run this long counts as healthy again.
_HEALTHY_AFTER_S = 60.0


class Delivery:
    """Delivers incidents and readings until it is stopped; it starts once. `page` takes more checks and collectors,
    `issues` are the known issues that overviews count.
    """

    def __init__(
        self,
        access: KafkaAccess,
        topics: TopicNames,
        sinks: Sinks,
        *,
        clients: Clients | None = None,
        issues: IssueCatalogue = NO_ISSUES,
    ) -> None:
        clients = Clients(access, topics) if clients is None else clients
        self._access = access
        self.page = StatusServer(sinks.prometheus)
        self.board = IncidentCollector()
        self.page.registry.register(self.board)
        self._in_force = SinksInForce(sinks)
        self.page.registry.register(SettingInfo("routing_info", self._in_force.hash))
        self._receivers = make_receivers(sinks, self._in_force)
        self._page_enabled = sinks.prometheus.enabled
        self._web = sinks.web
        self._store = IncidentStore(sinks.web.retention)
        self._stop = threading.Event()
        reader = CollectorFeed(clients, topics, self.board)
        self.page.add_readiness_check("readings", reader.problem)
        self.page.hold_metrics_while(reader.incomplete)
        self.page.add_remark("delivery", self.board.delivery.undelivered_words)
        self._actions = SlackActions(clients, topics, sinks, self.board, reader.incomplete)
        for name, remark in self._actions.remarks.items():
            self.page.add_remark(name, remark)
        site = (
            self._add_site(clients, topics, sinks, issues) if sinks.prometheus.enabled and sinks.web.enabled else None
        )
        self._deliver = partial(
            deliver_incidents, clients, topics, issues, board=self.board, stop=self._stop, drain_s=DRAIN_S
        )
        self._threads = [
            self._thread("metrics", partial(reader.run, self._stop)),
            *([self._thread("status site", partial(site.run, self._stop))] if site is not None else []),
            *(self._thread_of(receiver) for receiver in self._receivers),
            *(self._thread(name, partial(run, self._stop)) for name, run in self._actions.threads.items()),
        ]

    def _add_site(self, clients: Clients, topics: TopicNames, sinks: Sinks, issues: IssueCatalogue) -> SiteFeed:
        """Add the status site to the page. Returns the feed that fills it."""
        settings = PublishedSettings()
        feed = SiteFeed(clients, topics, self._store, settings)
        sources = Sources(
            store=self._store,
            collector=self.board,
            settings=settings,
            problem=feed.problem,
            incomplete=feed.incomplete,
            checks=lambda: [Check(*one) for one in self.page.checks()],
            runbook_base_url=sinks.slack.runbook_base_url or sinks.alertmanager.runbook_base_url,
            flink_ui_url=sinks.flink_ui_url,
            issues=issues,
        )
        self.page.add_site(StatusSite(sinks.web, sinks.prometheus.address, sources).respond)
        self.page.add_remark("status site", feed.problem)
        return feed

    def check(self) -> None:
        """Raises SecretError without a secret of a sink or of the status site."""
        try:
            check_secrets(self._web)
        except SecretError as error:
            raise SecretError(f"sinks.web.{error}") from None
        for receiver in self._receivers:
            try:
                receiver.sink.check()
            except SecretError as error:
                raise SecretError(f"sinks.{receiver.name.partition(':')[0]}.{error}") from None
        self._actions.check()

    def start(self) -> None:
        """Returns at once. Raises OSError if the page cannot listen, SecretError without a sink's secret."""
        self.check()
        for receiver in self._receivers:
            self.board.delivery.add_receiver(receiver.name)
        if self._page_enabled:
            self.page.start()
        for thread in self._threads:
            thread.start()

    def prepare(self, changed: Sinks) -> Callable[[], None]:
        """Check changed routes, quiet hours and mentions. The function that is returned puts them in force.

        A channel that is new in the routes becomes a receiver. One that is no longer named continues until the process
        ends, for the incidents that it was notified of. Raises ValueError or SecretError; then nothing has changed.
        """
        sinks = self._in_force.now.reloaded(changed)
        new = make_receivers(sinks, self._in_force, {receiver.name for receiver in self._receivers})
        for receiver in new:
            receiver.sink.check()
        return partial(self._put_in_force, sinks, new)

    def _put_in_force(self, sinks: Sinks, new: tuple[Receiver, ...]) -> None:
        self._in_force.replace(sinks)
        self._receivers += new
        for receiver in new:
            self.board.delivery.add_receiver(receiver.name)
            thread = self._thread_of(receiver)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Sends what is due, within DRAIN_S seconds; the next start sends what remains. Does nothing before `start`."""
        self._stop.set()
        begun = time.monotonic()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=max(0.0, begun + _JOIN_S - time.monotonic()))
                if thread.is_alive():
                    log.warning("delivery did not end in time", thread=thread.name)
        for receiver in self._receivers:
            if isinstance(receiver.sink, EditingSink):
                receiver.sink.close(max(0.0, begun + DRAIN_S - time.monotonic()))
        self.page.stop()
        self._store.close()

    def run(self) -> None:
        """`start`, then blocks until `stop` is called from elsewhere."""
        self.start()
        self._stop.wait()
        self.stop()

    def _thread_of(self, receiver: Receiver) -> threading.Thread:
        return self._thread(receiver.name, partial(self._deliver, receiver))

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=self._keep_running, args=(name, work), name=f"delivery {name}", daemon=True)

    def _keep_running(self, name: str, work: Callable[[], None]) -> None:
        """The outer edge of a thread: if `work` fails for any reason, it starts again a little later."""
        delay = _RESTART_FIRST_S
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                work()
            except (KafkaError, SecretError) as error:
                reason = explain(self._access, error)
                log.warning("delivery interrupted, starting again", part=name, error=reason, retry_in_s=delay)
            except Exception:
                log.exception("delivery failed, starting again", part=name, retry_in_s=delay)
            if time.monotonic() - began > _HEALTHY_AFTER_S:
                delay = _RESTART_FIRST_S
            self._stop.wait(delay)
            delay = min(delay * 2, _RESTART_MAX_S)
