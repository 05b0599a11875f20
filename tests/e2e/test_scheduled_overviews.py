"""An overview with real deliverers and a real broker: one message, although all of them are killed while it is sent."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from sinks.contract.feedback import Feedback
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.topics import TopicNames, ensure_topics
from tests.fake_slack.server import Call, SlackServer
from tests.reliability.deliverer import Deliverer, configuration
from tests.unit.sinks.samples import make_transition

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DAY_MS = 86_400_000
TOPICS = TopicNames(prefix="overviews", partitions=2)


def is_overview(text: str) -> bool:
    return "Flink incidents (shift)" in text


def eventually(holds: Callable[[], bool], alive: list[Deliverer], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "\n".join(one.stacks() for one in alive)
        time.sleep(0.05)


def write_topics(access: KafkaAccess, due: int) -> None:
    """An incident, its acknowledgement, and an overview that was sent a day before the one that is due."""
    opened = due - 3_600_000
    with closing(KafkaAdminClient(**client_options(access))) as admin:
        ensure_topics(admin, TOPICS, create=True)
    incident = make_transition(incident="9f2c", at=opened, opened_at=opened, findings=[])
    answer = Feedback(incident="9f2c", answer="acknowledged", person="ann", user="U1", at=opened + 240_000)
    with closing(KafkaProducer(**client_options(access))) as producer:
        producer.send(TOPICS.incidents, key=b"9f2c", value=msgspec.json.encode(incident))
        producer.send(TOPICS.feedback, key=answer.key(), value=answer.encoded())
        producer.flush(timeout=60)
    log = NotificationLog(clients.producer(access), TOPICS.deliveries, "slack")
    name = f"~overview/shift/{due - DAY_MS}"
    log.set(0, name, Entry(incident=name, seq=1, state="sent", at=due - DAY_MS))
    log.close()


def logged(access: KafkaAccess, due: int) -> str:
    """What the notification log has of the overview."""
    log = NotificationLog(None, TOPICS.deliveries, "slack")
    log.load(0, clients.Clients(access, TOPICS).read_notification_log(0))
    entry = log.get(0, f"~overview/shift/{due}")
    return "" if entry is None else entry.state


def test_two_deliverers_that_are_killed_while_one_sends_an_overview_and_two_more_send_it_once(
    broker: Any, tmp_path: Path
) -> None:
    running: list[Deliverer] = []
    access = KafkaAccess(bootstrap_servers=broker.bootstrap)
    due = int(time.time()) // 60 * 60_000 - 60_000

    struck = Event()

    def kill_all(call: Call) -> None:
        """In the thread of the request: Slack has taken the message, and its answer never comes."""
        if is_overview(str(call.body.get("text"))) and not struck.is_set():
            struck.set()
            eventually(lambda: len(running) == 2, running)
            for one in running:
                os.kill(one.pid, signal.SIGKILL)

    with SlackServer(on_call=kill_all) as slack:
        write_topics(access, due)
        wanted = configuration(
            broker.bootstrap, TOPICS.prefix, slack.base_url, channel=slack.channel_id("flink-alerts")
        )
        at = f"{datetime.fromtimestamp(due / 1000, UTC):%H:%M}"
        wanted["sinks"]["overviews"] = [{"name": "shift", "at": [at], "to": ["slack"]}]

        def start() -> None:
            folder = tmp_path / str(len(running))
            folder.mkdir()
            running.append(Deliverer(folder, wanted))

        start()
        start()
        eventually(lambda: all(one.ended() for one in running), running)
        assert logged(access, due) == "intent"
        start()
        start()
        alive = running[2:]
        eventually(lambda: logged(access, due) == "sent", alive)
        for one in alive:
            assert one.terminate() == 0, one.log_tail()
        (sent,) = [parent for parent in slack.parents() if is_overview(parent.text)]
        assert "1 opened (1 warning), 0 resolved, 1 open at the end." in str(sent.blocks)
        assert "1 of 1 acknowledged, the median after 4 min." in str(sent.blocks)
