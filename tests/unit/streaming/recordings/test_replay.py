"""A replay ends as a job would that hears no more."""

import pytest

from detectors.events.event import Record
from detectors.kinds.telemetry.unread_records_lost import UnreadRecordsLost
from streaming.recordings.replay import run
from tests.recorded import PUBLISHED, READER, said
from tests.unit.detectors.streams import START, alone, log


def test_a_fatal_error_at_the_end_of_a_jobmanager_log_is_reported() -> None:
    text = (
        "2026-11-21 00:06:25,154 ERROR org.apache.flink.runtime.entrypoint.ClusterEntrypoint [] - "
        "Fatal error occurred in the cluster entrypoint.\n"
        "java.lang.IllegalStateException: too old resource version"
    )
    (opened,) = said([Record("flink.logs", 0, 0, 1_795_219_585_154, b"c/jm", text.encode())])
    assert (opened.transition, opened.cause) == ("opened", "jobmanager_lost")
    assert "too old resource version" in opened.summary


def test_an_event_that_waits_for_a_deadline_at_the_end_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock does not reach the deadline, since the event's source is not trusted with it."""
    taken: list[int] = []
    record = Record("flink.logs", 0, 0, START, None, b"")
    monkeypatch.setattr(UnreadRecordsLost, "fact", lambda *given: taken.append(given[1].event.offset))
    monkeypatch.setattr(UnreadRecordsLost, "has_deadlines", True)
    monkeypatch.setattr(UnreadRecordsLost, "next_deadline", lambda *_: START + 20_000)
    where = {"topic": "flink.logs", "partition": "0"}
    lines = [log("input_read_up", at, n, lag=0, **where) for n, at in enumerate((0, 2_000, 30_000))]
    arrived = [(START + 2_000 * n, record, [one]) for n, one in enumerate(lines)]
    assert [*run(arrived, alone("unread_records_lost"), "")] == []
    assert taken == [0, 1, 2]


def test_what_several_clusters_report_with_the_last_line_is_one_incident() -> None:
    """In the job the driver writes it into the stream; in a replay nothing else comes after the last line."""
    assert [t.cause for t in said(refused("billing"))] == ["broker_unreachable"]
    found = said(sorted([*refused("billing"), *refused("orders")], key=lambda r: r.timestamp))
    assert [t.cause for t in found] == ["broker_unreachable", "broker_unreachable", "platform_incident"]
    assert found[-1].findings[0].entity["clusters"] == "billing, orders"


def test_long_batches_of_one_cluster_change_nothing_also_when_others_follow() -> None:
    records = sorted([*refused("billing"), *refused("orders")], key=lambda r: r.timestamp)
    arrived = [(r.timestamp, r, READER.read(r)) for r in records]
    found = [t.cause for t in run(arrived, PUBLISHED, "")]
    assert found == ["broker_unreachable", "broker_unreachable", "platform_incident"]
    assert [*run(arrived, PUBLISHED, "", one_cluster_ms=10_000)] == [*run(arrived, PUBLISHED, "")]


def refused(cluster: str) -> list[Record]:
    """A client's lines during 34 s."""
    line = "[Consumer clientId=a, groupId=a] Connection to node 1 (kafka-1/10.0.0.9:9092) could not be established."
    headers = (("cluster", cluster.encode()), ("host", b"tm-1"), ("file", b"/opt/flink/log/tm.log"))
    lines = []
    for second in range(35):
        text = f"2026-11-21 00:06:{second:02d},000 WARN  o.a.k.c.NetworkClient [] - {line}"
        lines.append(Record("flink.logs", 0, second, 1_795_219_560_000 + second * 1_000, None, text.encode(), headers))
    return lines
