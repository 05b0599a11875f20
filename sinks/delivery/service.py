"""The delivery loops: incidents and readings out of Kafka, to every sink and to the metrics page.

    delivery = Delivery(access, topics, sinks)           # KafkaAccess, TopicNames, Sinks
    delivery.page.add_readiness_check("query", check)    # optional; so is delivery.page.registry.register(collector)
    delivery.start()                                     # returns at once; OSError, SecretError: cannot start
    ...
    delivery.stop()                                      # sends what is due, within DRAIN_S seconds

or `delivery.run()`, which blocks until another thread calls `stop()`.

A thread for each lane and one for the page, so that nothing holds up anything else:

    board       incidents and readings, from the beginning   → Board → /metrics
    each lane   incidents, as one of its consumer group      → Courier → Dispatcher → its sink

A partition's ledger is read before its first record is looked at. Offsets are committed after delivery; a record
whose commit was lost comes again, and the ledger says that it was sent. Kafka being away is waited out.
"""

import threading
import time
from collections.abc import Callable
from functools import partial

import structlog
from kafka.errors import KafkaError

from sinks.delivery.worker import deliver_incidents
from sinks.kafka.access import KafkaAccess
from sinks.kafka.clients import Clients
from sinks.kafka.diagnosis import explain
from sinks.kafka.topics import TopicNames
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.feed import CollectorFeed
from sinks.prometheus.http_server import StatusServer
from sinks.receivers import make_lanes
from sinks.secret import SecretError
from sinks.settings import Sinks

log = structlog.get_logger()

DRAIN_S = 10.0
"""How long `stop` goes on sending what is due."""

_JOIN_S = DRAIN_S + 20.0
_RESTART_FIRST_S, _RESTART_MAX_S = 1.0, 30.0
# A thread that has run this long counts as healthy again.
_HEALTHY_AFTER_S = 60.0


class Delivery:
    """Delivers incidents and readings until stopped. Starts once."""

    def __init__(
        self,
        access: KafkaAccess,
        topics: TopicNames,
        sinks: Sinks,
        *,
        clients: Clients | None = None,
    ) -> None:
        clients = Clients(access, topics) if clients is None else clients
        self._access = access
        self.page = StatusServer(sinks.prometheus)
        self.board = IncidentCollector()
        self.page.registry.register(self.board)
        self._lanes = make_lanes(sinks)
        self._page_enabled = sinks.prometheus.enabled
        self._stop = threading.Event()
        reader = CollectorFeed(clients, topics, self.board)
        self.page.add_readiness_check("readings", reader.problem)
        self.page.hold_metrics_while(reader.incomplete)
        self.page.add_remark("delivery", self.board.undelivered)
        work = partial(deliver_incidents, clients, topics, board=self.board, stop=self._stop, drain_s=DRAIN_S)
        self._threads = [
            self._thread("board", partial(reader.run, self._stop)),
            *(self._thread(lane.name, partial(work, lane)) for lane in self._lanes),
        ]

    def check(self) -> None:
        """Raises SecretError without a sink's secret."""
        for lane in self._lanes:
            try:
                lane.sink.check()
            except SecretError as error:
                raise SecretError(f"sinks.{lane.name.partition(':')[0]}.{error}") from None

    def start(self) -> None:
        """Listens, unless it does, and begins. Raises OSError when the page cannot, SecretError without a secret."""
        self.check()
        for lane in self._lanes:
            self.board.integrate(lane.name)
        if self._page_enabled:
            self.page.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Sends what is due, then ends; the next start sends what remains. Does nothing when it never began."""
        self._stop.set()
        begun = time.monotonic()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=max(0.0, begun + _JOIN_S - time.monotonic()))
                if thread.is_alive():
                    log.warning("delivery did not end in time", thread=thread.name)
        for lane in self._lanes:
            lane.sink.close(max(0.0, begun + DRAIN_S - time.monotonic()))
        self.page.stop()

    def run(self) -> None:
        """`start`, then blocks until `stop` is called from elsewhere."""
        self.start()
        self._stop.wait()
        self.stop()

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=self._keep_running, args=(name, work), name=f"delivery {name}", daemon=True)

    def _keep_running(self, name: str, work: Callable[[], None]) -> None:
        """The outer edge of a thread: whatever ends `work` before its time, it starts again a little later."""
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
