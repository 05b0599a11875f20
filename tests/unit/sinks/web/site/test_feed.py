"""How the store is filled from topics in memory: outages, damage, a full disk, topics that are replaced."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kafka.errors import KafkaTimeoutError
from structlog.testing import capture_logs

from detectors.settings.live import CONFIG_KEY, LiveSettings, encode_published, publish
from sinks.delivery.notification_log import Entry
from sinks.web.site import lookup
from sinks.web.site.configuration import PublishedSettings
from sinks.web.site.feed import SiteFeed
from sinks.web.site.query import SiteQuery
from sinks.web.site.store import IncidentStore
from tests.unit.sinks.memory_kafka import TOPICS, BoardConsumer, MemoryKafka
from tests.unit.sinks.samples import OPENED_AT, make_transition

SITE = (TOPICS.incidents, TOPICS.deliveries, TOPICS.config)


class SteppingSite(BoardConsumer):
    """Before each poll the next step happens."""

    def __init__(self, kafka: MemoryKafka, steps: Iterator[Callable[[], object]]) -> None:
        super().__init__(kafka, SITE)
        self._steps = steps

    def poll(self, timeout_ms: int, max_records: int = 500) -> dict[Any, list[Any]]:
        next(self._steps)()
        return super().poll(timeout_ms, max_records)


class Feeding:
    """A feed over topics in memory."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.kafka = MemoryKafka()
        self.store = IncidentStore(1 << 50, folder=folder, **options)
        self.settings = PublishedSettings()
        self.stop = Event()
        self._steps: Iterator[Callable[[], object]] = iter(())
        clients: Any = SimpleNamespace(site_consumer=lambda: SteppingSite(self.kafka, self._steps))
        self.feed = SiteFeed(clients, TOPICS, self.store, self.settings, wall=lambda: OPENED_AT / 1000)

    def run(self, *steps: Callable[[], object]) -> None:
        """One poll after each step. The ends of the topics are asked for at each."""

        def asked(step: Callable[[], object]) -> Callable[[], object]:
            def both() -> None:
                self.feed.next_check = 0.0
                step()

            return both

        self._steps = iter([*map(asked, steps), self.stop.set])
        self.stop.clear()
        self.feed.run(self.stop)

    def opens(self, incident: str, seq: int = 1, **fields: Any) -> None:
        one = make_transition(incident=incident, seq=seq, **fields)
        self.kafka.write(TOPICS.incidents, incident, msgspec.json.encode(one))

    def kept(self) -> list[str]:
        with self.store.reading() as db:
            return sorted(one.incident for one in lookup.newest(db, lookup.where(SiteQuery()), SiteQuery()))


@pytest.fixture
def feeding(tmp_path: Path) -> Iterator[Feeding]:
    made = Feeding(tmp_path)
    yield made
    made.store.close()


def nothing() -> None:
    """No step."""


def fail() -> None:
    raise KafkaTimeoutError("no broker")


def test_incidents_notifications_and_the_configuration_arrive(feeding: Feeding) -> None:
    feeding.opens("i")
    entry = Entry(incident="i", seq=1, state="undelivered", at=5, reason="HTTP status 500")
    feeding.kafka.write(TOPICS.deliveries, "slack:#a/i", msgspec.json.encode(entry))
    feeding.kafka.write(TOPICS.config, CONFIG_KEY.decode(), encode_published(publish(LiveSettings(), 7, "ann")))
    assert feeding.feed.incomplete() is not None
    feeding.run(nothing, nothing)
    with feeding.store.reading() as db:
        (sent,) = lookup.notifications(db, "i")
    assert (sent.receiver, sent.state, sent.at, sent.reason) == ("slack:#a", "undelivered", 5, "HTTP status 500")
    document = feeding.settings.document(0, None)
    assert document is not None
    assert (document.by, document.at) == ("ann", 7)
    assert (feeding.feed.incomplete(), feeding.feed.problem()) == (None, None)


def test_tombstones_remove_incidents_and_notifications(feeding: Feeding) -> None:
    feeding.opens("i")
    feeding.opens("kept")
    for receiver in ("slack", "slack:a/b"):
        entry = msgspec.json.encode(Entry(incident="kept", seq=1, state="sent", at=5))
        feeding.kafka.write(TOPICS.deliveries, f"{receiver}/kept", entry)
    feeding.kafka.write(TOPICS.deliveries, "slack/kept", None)
    feeding.kafka.write(TOPICS.deliveries, "slack:a/b/kept", None)
    feeding.kafka.write(TOPICS.incidents, "i", None)
    feeding.run(nothing)
    assert feeding.kept() == ["kept"]
    with feeding.store.reading() as db:
        assert lookup.notifications(db, "kept") == []


def test_after_an_outage_no_older_change_returns(feeding: Feeding) -> None:
    """Everything is read again, and nobody must see a resolved incident open meanwhile."""
    feeding.opens("i")
    feeding.opens("i", 2, transition="resolved")
    states: list[str] = []

    def look() -> None:
        with feeding.store.reading() as db:
            found = lookup.incident(db, "i")
        states.append(found.state if found is not None else "")

    with pytest.raises(KafkaTimeoutError):
        feeding.run(nothing, look, fail)
    problem = feeding.feed.problem()
    assert problem is not None
    assert "Kafka cannot be read" in problem
    assert feeding.feed.incomplete() is None, "what is known is shown on"
    feeding.opens("new")
    feeding.run(look, look, look)
    assert states == ["resolved"] * 4
    assert feeding.kept() == ["i", "new"]
    assert feeding.feed.problem() is None


def test_records_that_cannot_be_read_are_skipped_and_counted_in_one_line(feeding: Feeding) -> None:
    for value in (b"", b"nix", b'{"incident": 1}', b"\xff", b"[" * 5000):
        feeding.kafka.write(TOPICS.incidents, "bad", value)
        feeding.kafka.write(TOPICS.deliveries, "slack/bad", value)
        feeding.kafka.write(TOPICS.config, CONFIG_KEY.decode(), value)
    feeding.opens("good")
    with capture_logs() as lines:
        feeding.run(nothing)
    assert feeding.kept() == ["good"]
    assert sorted(line["count"] for line in lines if "skipped" in line["event"]) == [5, 5, 5]


def test_a_full_disk_is_logged_shown_and_never_raised_and_the_next_run_begins_again(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path, most_bytes=500_000)
    for number in range(2_000):
        feeding.opens(f"i{number}", advice=str([hash((number, part)) for part in range(40)]))
    with capture_logs() as lines:
        feeding.run(*[nothing] * 10)
    assert [line["event"] for line in lines] == ["the status site cannot store incidents and starts again"]
    problem = feeding.feed.problem()
    assert problem is not None
    assert "full" in problem
    assert feeding.feed.incomplete() is not None
    feeding.kafka.logs.clear()
    feeding.opens("i")
    feeding.run(nothing, nothing)
    assert feeding.kept() == ["i"]
    assert feeding.feed.problem() is None
    feeding.store.close()


def test_a_folder_that_cannot_be_written_is_shown_and_not_raised(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path / "missing")
    with capture_logs():
        feeding.run()
    problem = feeding.feed.problem()
    assert problem is not None
    assert "incidents cannot be stored" in problem


def test_a_topic_that_was_created_again_is_read_from_its_beginning(feeding: Feeding) -> None:
    for number in range(5):
        feeding.opens(f"old{number}")

    def recreated() -> None:
        for log in feeding.kafka.logs.values():
            log.clear()
        feeding.opens("new")

    with capture_logs():
        feeding.run(nothing, nothing, recreated, nothing, nothing)
    assert feeding.kept() == ["new"]


def test_without_the_topic_of_incidents_the_site_has_nothing_to_show(feeding: Feeding) -> None:
    feeding.kafka.logs.clear()
    feeding.run(nothing, nothing)
    assert feeding.feed.problem() == "the topic flinkwatch.incidents does not exist"
    assert feeding.feed.incomplete() == "the topic flinkwatch.incidents does not exist"


def test_while_much_is_unread_the_site_is_incomplete(feeding: Feeding) -> None:
    for number in range(700):
        feeding.opens(f"i{number}")
    held: list[str | None] = []
    feeding.run(nothing, lambda: held.append(feeding.feed.incomplete()), lambda: held.append(feeding.feed.incomplete()))
    assert held == ["200 records are unread", None]
