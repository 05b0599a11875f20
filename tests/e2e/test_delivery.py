"""Delivery against a real broker: consumer groups, the notification log in its topic, and topics that are checked."""

import http.client
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from detectors.incident import Reading, Transition
from sinks.delivery.service import Delivery
from sinks.integrations.slack.settings import SlackConfig
from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.clients import Clients
from sinks.kafka.topics import TopicNames, TopicsError, ensure_topics
from sinks.prometheus.http_server import PrometheusConfig
from sinks.settings import Sinks
from tests.embedded.broker import Broker
from tests.fake_slack.server import TOKEN, Call, SlackServer
from tests.fake_teams.server import SECRET, TeamsCall, TeamsServer
from tests.unit.sinks.samples import make_transition

pytestmark = pytest.mark.e2e

_numbers = itertools.count(1)


class Installation:
    """Topics of a test's own on the shared broker, a Slack, and what the job would write."""

    def __init__(self, bootstrap: str) -> None:
        self.access = KafkaAccess(bootstrap_servers=bootstrap)
        self.topics = TopicNames(prefix=f"delivery{next(_numbers)}", partitions=2)
        self._called = threading.Condition()
        self._calls = 0
        self.slack = SlackServer(on_call=self.count)
        with closing(KafkaAdminClient(**client_options(self.access))) as admin:
            ensure_topics(admin, self.topics, create=True)
        self._producer = KafkaProducer(**client_options(self.access), reconnect_backoff_max_ms=500)

    def close(self) -> None:
        self._producer.close(timeout=2)
        self.slack.close()

    def delivery(self, **sinks: Any) -> Delivery:
        """To Slack, unless `sinks` names others."""
        config = SlackConfig(enabled=True, channel="flink-alerts", base_url=self.slack.base_url, thread_updates=False)
        page = PrometheusConfig(address="127.0.0.1", port=0)
        return Delivery(self.access, self.topics, Sinks(**(sinks or {"slack": config}), prometheus=page))

    def say(self, *transitions: Transition) -> None:
        for one in transitions:
            self._producer.send(self.topics.incidents, key=one.incident.encode(), value=msgspec.json.encode(one))
        self._producer.flush(timeout=120)

    def show(self, reading: Reading | None, key: str) -> None:
        value = None if reading is None else msgspec.json.encode(reading)
        self._producer.send(self.topics.readings, key=key.encode(), value=value)
        self._producer.flush(timeout=120)

    def wait_for_calls(self, count: int) -> None:
        """Until Slack has been called so often in all."""
        with self._called:
            assert self._called.wait_for(lambda: self._calls >= count, timeout=300), f"{self._calls} calls, not {count}"

    def log_entries(self) -> dict[str, Any]:
        """The entries of the notification log, by key."""
        clients = Clients(self.access, self.topics)
        found = [pair for partition in range(2) for pair in clients.read_notification_log(partition)]
        entries = {key.decode(): msgspec.json.decode(value) for key, value in found if key and value}
        return {key: entry for key, entry in entries.items() if "/~" not in key}

    def count(self, _: Call | TeamsCall) -> None:
        with self._called:
            self._calls += 1
            self._called.notify_all()


@pytest.fixture
def installation(broker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    made = Installation(broker.bootstrap)
    yield made
    made.close()


def get(port: int, path: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def eventually(check: Callable[[], bool], what: str, pause: threading.Event, seconds: int = 300) -> None:
    for _ in range(seconds * 10):
        if check():
            return
        pause.wait(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def test_the_lifecycle_of_an_incident_is_notified_once_over_a_restart(installation: Installation) -> None:
    first = installation.delivery()
    first.start()
    installation.say(make_transition())
    installation.wait_for_calls(1)
    installation.say(make_transition(seq=2, transition="updated"))
    installation.wait_for_calls(2)
    first.stop()
    installation.say(make_transition(seq=3, transition="resolved"))
    second = installation.delivery()
    second.start()
    installation.wait_for_calls(3)
    second.stop()
    (parent,) = installation.slack.parents()
    assert "Resolved" in parent.text
    assert [call.method for call in installation.slack.calls] == ["chat.postMessage", "chat.update", "chat.update"]
    (entry,) = installation.log_entries().values()
    assert (entry["seq"], entry["state"], entry["ts"]) == (3, "sent", parent.ts)


def test_teams_gets_one_message_over_a_restart(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMS_CLIENT_SECRET", SECRET)
    with TeamsServer(on_call=installation.count) as teams:
        first = installation.delivery(teams=teams.settings)
        first.start()
        installation.say(make_transition())
        installation.wait_for_calls(2)
        first.stop()
        installation.say(make_transition(seq=2, transition="resolved"))
        second = installation.delivery(teams=teams.settings)
        second.start()
        installation.wait_for_calls(5)
        second.stop()
        assert teams.methods() == ["post", "edit", "reply"]
        ((name, message),) = teams.messages.items()
        assert "Resolved" in message["summary"]
    (entry,) = installation.log_entries().values()
    assert (entry["seq"], entry["state"], entry["ts"]) == (2, "sent", name)


def test_two_deliverers_notify_each_incident_once(installation: Installation) -> None:
    both = [installation.delivery(), installation.delivery()]
    for one in both:
        one.start()
    installation.say(*(make_transition(incident=f"incident {number}") for number in range(20)))
    installation.wait_for_calls(20)
    for one in both:
        one.stop()
    told = [message.metadata["event_payload"]["incident"] for message in installation.slack.parents()]
    assert sorted(told) == sorted(f"incident {number}" for number in range(20))


def test_the_page_shows_readings_and_becomes_ready(installation: Installation) -> None:
    reading = Reading(name="heap_floor_bytes", labels={"cluster": "c"}, value=5e8, at=1)
    installation.show(reading, reading.key())
    delivery = installation.delivery()
    delivery.start()
    port, pause = delivery.page.port, threading.Event()
    try:
        eventually(lambda: get(port, "/-/ready")[0] == 200, "ready", pause)
        assert 'flinkwatch_heap_floor_bytes{cluster="c"} 5e+08' in get(port, "/metrics")[1]
        installation.show(None, reading.key())
        eventually(lambda: "heap_floor" not in get(port, "/metrics")[1], "the series vanishes", pause)
    finally:
        delivery.stop()


def test_topics_are_checked_against_what_the_broker_says(installation: Installation) -> None:
    names = TopicNames(prefix=f"{installation.topics.prefix}.other", partitions=3)
    with closing(KafkaAdminClient(**client_options(installation.access))) as admin:
        with pytest.raises(TopicsError) as caught:
            ensure_topics(admin, names, create=False)
        assert str(caught.value).count("kafka-topics.sh") == 7
        admin.create_topics({names.incidents: {"num_partitions": 5}})
        admin.wait_for_topics([names.incidents])
        with pytest.raises(TopicsError, match=r"incidents: cleanup.policy is delete, must be compact"):
            ensure_topics(admin, names, create=True)
        counts = {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics([names.deliveries])}
        assert counts == {names.deliveries: 5}


@pytest.mark.slow
def test_an_outage_of_the_broker_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not ready while it lasts; afterwards what was said is told, each incident once."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    pause = threading.Event()
    with Broker() as broker:
        installation = Installation(broker.bootstrap)
        delivery = installation.delivery()
        delivery.start()
        port = delivery.page.port
        eventually(lambda: get(port, "/-/ready")[0] == 200, "ready", pause)
        # Killed before the answer can be recorded.
        installation.slack.on_call = lambda _: broker.kill()
        installation.say(make_transition())
        eventually(lambda: get(port, "/-/ready")[0] == 503, "not ready", pause, seconds=40)
        installation.slack.on_call = None
        broker.restart()
        eventually(lambda: get(port, "/-/ready")[0] == 200, "ready again", pause, seconds=60)
        installation.say(make_transition(seq=2, transition="updated"), make_transition(incident="other"))
        eventually(lambda: len(installation.slack.calls) >= 3, "told", pause, seconds=60)
        delivery.stop()
        assert [call.method for call in installation.slack.calls].count("chat.postMessage") == 2
        assert len(installation.slack.parents()) == 2
        installation.close()
