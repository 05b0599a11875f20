"""The threads of delivery, without network: when they start again, what the page shows of them, and how they stop."""

import threading
from collections.abc import Iterator
from email import message_from_string
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from structlog.testing import capture_logs

from sinks.delivery.service import Delivery
from sinks.integrations.slack.settings import SlackConfig
from sinks.kafka.access import KafkaAccess
from sinks.prometheus.http_server import PrometheusConfig
from sinks.secret import SecretError
from sinks.settings import Sinks
from sinks.web.site.exchange import HttpRequest
from sinks.web.site.settings import WebConfig
from tests.unit.sinks.delivery.test_delivery import metric
from tests.unit.sinks.memory_kafka import TOPICS, MemoryKafka

SINKS = Sinks(slack=SlackConfig(enabled=True, channel="C1"), prometheus=PrometheusConfig(enabled=False))


class StopAfter(threading.Event):
    """Set after so many waits with a time, which it notes and does not take; then whoever waits for it goes on."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._most = waits

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            return super().wait(20)
        self.waits.append(timeout)
        if len(self.waits) == self._most:
            self.set()
        return self.is_set()


class Loops:
    """Delivery to one receiver; what its thread does is `work`, on a clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.work: Any = lambda: None
        self.given: dict[str, Any] = {}
        self.stop = StopAfter(1)
        monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
        monkeypatch.setattr("sinks.delivery.service.time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr("sinks.delivery.service.deliver_incidents", self._deliver)
        for feed in ("service.CollectorFeed", "slack_actions.FeedbackFeed"):
            monkeypatch.setattr(f"sinks.delivery.{feed}.run", lambda _, stop: stop.wait())
        self._threading = SimpleNamespace(Thread=threading.Thread, Event=lambda: self.stop)
        monkeypatch.setattr("sinks.delivery.service.threading", self._threading)

    def delivery(self, waits: int) -> Delivery:
        self.stop = StopAfter(waits)
        return Delivery(KafkaAccess(bootstrap_servers="127.0.0.1:1"), TOPICS, SINKS, clients=MemoryKafka())

    def pauses(self, count: int) -> list[float]:
        """The pauses before the next starts."""
        self.delivery(count).run()
        return self.stop.waits[:count]

    def _deliver(self, *_: Any, **given: Any) -> None:
        self.given = given
        self.work()


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loops]:
    with capture_logs():
        yield Loops(monkeypatch)


def fail() -> None:
    raise ZeroDivisionError


def test_a_thread_that_fails_starts_again_after_pauses_that_grow_to_half_a_minute(loops: Loops) -> None:
    loops.work = fail
    assert loops.pauses(7) == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize(("seconds", "pauses"), [(60, [1, 2, 4]), (60.5, [1, 1, 2])])
def test_after_a_run_of_more_than_a_minute_the_pauses_begin_again(
    loops: Loops, seconds: float, pauses: list[float]
) -> None:
    runs = iter((0.0, seconds, 0.0))

    def work() -> None:
        loops.now += next(runs)
        raise ZeroDivisionError

    loops.work = work
    assert loops.pauses(3) == pauses


def test_a_thread_without_kafka_logs_why_and_when_it_starts_again(loops: Loops) -> None:
    def work() -> None:
        raise KafkaConnectionError

    loops.work = work
    with capture_logs() as lines:
        loops.pauses(1)
    (line,) = (line for line in lines if line["event"] == "delivery interrupted, starting again")
    assert "127.0.0.1:1" in line["error"]
    assert (line["part"].partition(":")[0], line["retry_in_s"], line["log_level"]) == ("slack", 1, "warning")


def test_a_receiver_drains_for_ten_seconds_and_shows_its_metrics_from_the_start(loops: Loops) -> None:
    delivery = loops.delivery(1)
    delivery.run()
    assert loops.given["drain_s"] == 10
    assert metric(delivery.board, "flinkwatch_notifications_total", integration="slack") == 0


def test_the_page_shows_what_delivery_counts_and_is_not_ready_before_kafka_was_read(loops: Loops) -> None:
    delivery = loops.delivery(1)
    delivery.board.delivery.undelivered.labels("slack").set(3)
    status, _, body = delivery.page.answer("/-/ready", "")
    assert status == 503
    assert "readings: Kafka has not been read yet" in body.decode()
    assert "delivery: undelivered incidents" in body.decode()
    assert delivery.page.answer("/metrics", "")[0] == 503
    names = {family.name for family in delivery.page.registry.collect()}
    assert "flinkwatch_notifications_undelivered" in names


def test_a_thread_that_does_not_end_is_named_and_delivery_stops_all_the_same(
    loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinks.delivery.service._JOIN_S", 0.2)
    working, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        working.set()
        goes_on.wait(20)

    loops.work = work
    delivery = loops.delivery(1)
    delivery.start()
    assert working.wait(20)
    # It must not keep a process that ends.
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("delivery "))
    with capture_logs() as lines:
        delivery.stop()
    late = [line["thread"] for line in lines if line["event"] == "delivery did not end in time"]
    goes_on.set()
    assert len(late) == 1
    assert late[0].startswith("delivery slack")


@pytest.mark.parametrize(("stopping_s", "left_s"), [(0, 10), (4, 6), (15, 0)])
def test_what_still_follows_messages_has_the_rest_of_the_ten_seconds(
    loops: Loops, monkeypatch: pytest.MonkeyPatch, stopping_s: float, left_s: float
) -> None:
    closed: list[float] = []
    monkeypatch.setattr("sinks.integrations.slack.sink.SlackSink.close", lambda _, seconds: closed.append(seconds))
    times = iter((1000.0, 1000.0 + stopping_s))
    delivery = loops.delivery(1)
    monkeypatch.setattr("sinks.delivery.service.time", SimpleNamespace(monotonic=lambda: next(times)))
    delivery.stop()
    assert closed == [left_s]


def test_it_runs_until_it_is_stopped_and_then_its_page_is_closed(loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PrometheusConfig(address="127.0.0.1", port=0)
    monkeypatch.setattr(f"{__name__}.SINKS", Sinks(slack=SINKS.slack, prometheus=page, web=WebConfig(enabled=False)))
    goes_on = threading.Event()
    loops.work = lambda: goes_on.wait(20)
    delivery = loops.delivery(1)
    running = threading.Thread(target=delivery.run, daemon=True)
    running.start()
    running.join(0.5)
    assert running.is_alive()
    assert not loops.stop.is_set()
    assert delivery.page.port > 0
    goes_on.set()
    loops.stop.set()
    running.join(20)
    assert not running.is_alive()
    assert delivery.page.port == 0


def with_site(monkeypatch: pytest.MonkeyPatch, **web: Any) -> Sinks:
    """Sinks with a page on a free port and the status site; its feed only waits."""
    monkeypatch.setattr("sinks.delivery.service.SiteFeed.run", lambda _, stop: stop.wait())
    page = PrometheusConfig(address="127.0.0.1", port=0)
    sinks = Sinks(slack=SINKS.slack, prometheus=page, web=WebConfig(**web))
    monkeypatch.setattr(f"{__name__}.SINKS", sinks)
    return sinks


def test_the_site_is_on_the_page_and_its_trouble_does_not_make_the_process_unready(
    loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_site(monkeypatch)
    page = loops.delivery(1).page
    request = HttpRequest("/", "", message_from_string("Host: localhost"))
    assert page.respond(request).status == 503
    assert "topics are still read" in page.respond(request).body.decode()
    assert ("status site", "Kafka has not been read yet") in page.checks()
    assert page.respond(request._replace(path="/-/healthy")).body == b"flinkwatch is healthy\n"
    assert "flinkwatch_ready{" not in page.respond(request._replace(path="/-/ready")).body.decode()
    assert page.answer("/-/ready", "")[2].decode().count("status site: Kafka has not been read yet") == 1


def test_without_the_site_the_page_is_as_before(loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    with_site(monkeypatch, enabled=False)
    page = loops.delivery(1).page
    request = HttpRequest("/incidents/x", "", message_from_string("Host: evil.example"))
    assert page.respond(request).status == 404
    assert page.respond(request._replace(path="/")).status == 200
    assert "status site" not in dict(page.checks())


def test_a_site_without_its_secret_is_refused_at_start(loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SITE_TOKEN", raising=False)
    with_site(monkeypatch, token_env="SITE_TOKEN")
    with pytest.raises(SecretError, match=r"sinks\.web\.token_env: environment variable SITE_TOKEN is not set"):
        loops.delivery(1).check()


def routed(to: str) -> Sinks:
    """The sinks with one route for everything."""
    return Sinks.model_validate({"slack": SINKS.slack, "routing": {"routes": [{"to": [to]}], "default": ["slack"]}})


def receivers(delivery: Delivery) -> set[str]:
    """The receivers that have metrics."""
    samples = [sample for family in delivery.board.delivery.waiting.collect() for sample in family.samples]
    return {sample.labels["integration"] for sample in samples}


def hash_of_routes(delivery: Delivery) -> str:
    samples = [sample for family in delivery.page.registry.collect() for sample in family.samples]
    return next(sample.labels["hash"] for sample in samples if sample.name == "flinkwatch_routing_info")


def test_a_channel_that_changed_routes_name_gets_a_thread_and_the_others_keep_theirs(loops: Loops) -> None:
    started: list[str] = []
    goes_on, first, second = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.append(threading.current_thread().name)
        (second if first.is_set() else first).set()
        goes_on.wait(20)

    loops.work = work
    delivery = loops.delivery(99)
    delivery.start()
    assert first.wait(20)
    for channel in ("slack:C0NEW0001", "slack", "slack:C0NEW0001"):
        delivery.prepare(routed(channel))()
    assert second.wait(20)
    seen = list(started)
    loops.stop.set()
    goes_on.set()
    delivery.stop()
    assert seen == ["delivery slack", "delivery slack:C0NEW0001"]
    assert receivers(delivery) == {"slack", "slack:C0NEW0001"}


def test_routes_that_are_refused_change_nothing(loops: Loops) -> None:
    delivery = loops.delivery(1)
    before = hash_of_routes(delivery)
    webhook = {"enabled": True, "url": "https://hooks.example/x"}
    changed = Sinks.model_validate({"webhook": webhook, "routing": {"routes": [{"to": ["webhook"]}]}})
    with pytest.raises(ValueError, match="'webhook', which is not an enabled receiver; enabled: slack"):
        delivery.prepare(changed)
    assert hash_of_routes(delivery) == before


def test_a_changed_file_applies_only_when_what_was_prepared_is_put_in_force(loops: Loops) -> None:
    delivery = loops.delivery(1)
    before = hash_of_routes(delivery)
    put_in_force = delivery.prepare(routed("slack:C0NEW0001"))
    assert hash_of_routes(delivery) == before
    loops.stop.set()
    put_in_force()
    assert hash_of_routes(delivery) != before
