"""Which incidents are deleted from the topic, and when."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from sinks.kafka.access import KafkaAccess
from streaming.job.followers.forget_incidents import ForgetIncidents
from tests.unit.sinks.samples import make_transition

DAY_MS = 86_400_000
NOW = 1_772_380_000_000
OLD, RECENT = NOW - 15 * DAY_MS, NOW - 13 * DAY_MS
A = (0, b"a")


def follower(now: int = NOW) -> ForgetIncidents:
    return ForgetIncidents(KafkaAccess(bootstrap_servers="a:9092"), "flinkwatch.incidents", lambda: now / 1000)


def value(change: str, at: int) -> bytes:
    return msgspec.json.encode(make_transition(incident="a", transition=change, at=at))


def test_an_incident_that_ended_two_weeks_ago_is_deleted_once() -> None:
    forget = follower()
    forget.note(A, value("resolved", OLD))
    assert (forget.forgotten(), forget.forgotten()) == ([A], [])


@pytest.mark.parametrize(("change", "at"), [("resolved", RECENT), ("updated", OLD), ("stale", OLD)])
def test_an_incident_that_is_open_or_ended_lately_is_kept(change: str, at: int) -> None:
    forget = follower()
    forget.note(A, value(change, at))
    assert forget.forgotten() == []


def test_an_incident_that_opened_again_is_kept() -> None:
    forget = follower()
    forget.note(A, value("resolved", OLD))
    forget.note(A, value("opened", RECENT))
    assert forget.forgotten() == []


@pytest.mark.parametrize("gone", [None, b"{"])
def test_a_deleted_or_unreadable_record_is_not_deleted_again(gone: bytes | None) -> None:
    forget = follower()
    forget.note(A, value("resolved", OLD))
    forget.note(A, gone)
    assert forget.forgotten() == []


def test_a_tombstone_goes_to_the_partition_of_the_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    def send(topic: str, **record: Any) -> SimpleNamespace:
        sent.append({"topic": topic, **record})
        return SimpleNamespace(get=lambda _: None)

    producer = SimpleNamespace(send=send, close=lambda: None)
    monkeypatch.setattr("streaming.job.followers.forget_incidents.clients.producer", lambda _: producer)
    forget = follower()
    forget.note((3, b"a"), value("resolved", OLD))
    forget.polled()
    assert sent == [{"topic": "flinkwatch.incidents", "key": b"a", "partition": 3}]
