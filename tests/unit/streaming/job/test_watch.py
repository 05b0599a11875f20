"""The stateful processor over Spark's in-memory tester: state survives, configuration takes force, counts add up."""

from typing import Any

import msgspec
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester
from structlog.testing import capture_logs

from detectors.engine import bucket
from detectors.engine.fold import DroppedState
from detectors.events.event import Record, Rejected
from detectors.incident import decode_reading, decode_transition
from detectors.incidents.silences import MAX_SILENCES
from detectors.settings.live import LiveSettings, PublishedResolution, publish
from streaming.configuration.known_issues import IssueFile
from streaming.job.rows import Packed, dead_letter, encode_packed
from streaming.job.watch import BucketProcessor, OutputTopics
from tests.recorded import events
from tests.unit.detectors.changes import silence
from tests.unit.detectors.streams import log
from tests.unit.sinks.samples import make_transition

TOPICS = OutputTopics("incidents", "readings", "rejected")
FAR = 4_000_000_000_000


def feed(tester: TwsTester, packed: Packed) -> list[Row]:
    out: list[Row] = tester.test(3, [Row(packed=encode_packed(packed))])
    return out


def packed_of(scenario: str, part: slice, **more: Any) -> Packed:
    chosen = list(events(scenario))[part]
    return Packed(clocks={"logs/0": max(e.timestamp for e in chosen)}, wall=FAR, events=chosen, **more)


@pytest.fixture
def tester() -> TwsTester:
    return TwsTester(BucketProcessor(TOPICS))


def waits(rows: list[Row]) -> dict[str, float]:
    """For how long each cluster waits for events that are late, seconds."""
    readings = [decode_reading(value) for value in values(rows, "readings") if value is not None]
    return {r.labels["cluster"]: r.value for r in readings if r.name == "cluster_waits_seconds"}


def test_an_incident_that_a_person_resolves_ends_in_that_batch_and_only_once(tester: TwsTester) -> None:
    last = make_transition(cluster="gone", seq=4, transition="stale")
    asked = Packed(clocks={"logs/0": 1_000}, wall=FAR, resolutions=[PublishedResolution(last, 1, "ann", "taken down")])
    (end,) = [decode_transition(value) for value in values(feed(tester, asked), "incidents")]
    assert (end.incident, end.seq, end.reason) == (last.incident, 5, "resolved by ann: taken down")
    assert values(feed(tester, Packed(clocks={"logs/0": 2_000}, wall=FAR)), "incidents") == []


@pytest.mark.parametrize("limited", [True, False])
def test_a_backlog_of_several_batches_is_no_lag(limited: bool) -> None:
    """The heartbeat is read ahead of it: its last two minutes look late. In a batch that took all there was, they
    are."""
    tester = TwsTester(BucketProcessor(TOPICS, max_offsets=100))
    now = FAR - 60_000
    feed(tester, Packed(clocks={"heartbeat/0": now}, wall=FAR, offsets=99 if limited else 80))
    backlog = msgspec.structs.replace(log("tm_registered", 0, tm="t"), timestamp=now - 60_000)
    feed(tester, Packed(clocks={"heartbeat/0": now + 20_000, "logs/0": now - 60_000}, wall=FAR, events=[backlog]))
    rows = feed(tester, Packed(clocks={"heartbeat/0": now + 40_000}, wall=FAR))
    assert waits(rows) == ({} if limited else {"c": 80.0})


def values(rows: list[Row], topic: str) -> list[bytes | None]:
    return [row.value for row in rows if row.topic == topic]


def test_state_is_carried_from_batch_to_batch(tester: TwsTester) -> None:
    """Cut in two, the scenario gives one incident whose numbers go on."""
    half = len(events("late-barrier-acks")) * 6 // 10
    rows = feed(tester, packed_of("late-barrier-acks", slice(0, half)))
    rows += feed(tester, packed_of("late-barrier-acks", slice(half, None)))
    transitions = [decode_transition(v) for v in values(rows, "incidents") if v is not None]
    assert len({t.incident for t in transitions}) == 1
    assert [t.seq for t in transitions] == list(range(1, len(transitions) + 1))
    assert transitions[-1].cause == "late_barrier_acks"


def test_the_configuration_in_force_is_named_and_outlives_the_batch(tester: TwsTester) -> None:
    settings = LiveSettings.model_validate({"detectors": {"checkpoint_overdue": {"enabled": False}}})
    published = publish(settings, at=1, by="test")
    feed(tester, packed_of("late-barrier-acks", slice(0, 10), published=published))
    rows = feed(tester, packed_of("late-barrier-acks", slice(10, None)))
    transitions = [decode_transition(v) for v in values(rows, "incidents") if v is not None]
    assert {t.config for t in transitions} == {published.hash}
    assert transitions[0].cause == "late_barrier_acks"


def test_silences_that_are_refused_are_counted_by_one_bucket() -> None:
    many = [silence(10**12, id=f"s{n}") for n in range(MAX_SILENCES + 3)]
    for number, counted in ((0, [3.0]), (1, [])):
        tester = TwsTester(BucketProcessor(TOPICS))
        packed = Packed(clocks={"logs/0": 50_000}, wall=FAR, silences=many)
        rows = tester.test(number, [Row(packed=encode_packed(packed))])
        readings = [decode_reading(value) for value in values(rows, "readings") if value is not None]
        assert [r.value for r in readings if r.labels.get("reason") == "too_many_silences"] == counted


def test_rejections_are_kept_and_counted_since_the_beginning(tester: TwsTester) -> None:
    record = Record("logs", 1, 42, 1_000, None, b"\xff")
    letter = dead_letter(Rejected("invalid_utf8", "byte 0xff at 0", record))
    feed(tester, Packed(clocks={"logs/1": 1_000}, wall=FAR, records=1, rejected=[letter]))
    rows = feed(tester, Packed(clocks={"logs/1": 2_000}, wall=FAR, records=2, rejected=[letter]))
    assert [row.key for row in rows if row.topic == "rejected"] == [b"logs/1/42"]
    kept = msgspec.json.decode(values(rows, "rejected")[0] or b"")
    assert (kept["reason"], kept["topic"], kept["offset"], kept["value_b64"]) == ("invalid_utf8", "logs", 42, "/w==")
    readings = [msgspec.json.decode(v) for v in values(rows, "readings") if v is not None]
    counts = {r["name"]: r["value"] for r in readings}
    assert counts == {"records_read_total": 3.0, "records_rejected_total": 2.0, "state_rows": 1.0}


def test_a_canary_becomes_a_reading_and_nothing_else(tester: TwsTester) -> None:
    """The newest of a batch; a batch without one says nothing of it, and no cluster is known for it."""
    feed(tester, Packed(clocks={"heartbeat/0": 1_000}, wall=FAR))
    rows = feed(tester, Packed(clocks={"heartbeat/0": 2_000}, wall=FAR, canary=1_500))
    (value,) = [row.value for row in rows]
    reading = decode_reading(value)
    assert (reading.name, reading.labels, reading.value) == ("canary_timestamp_seconds", {"cluster": "flinkwatch"}, 1.5)
    assert feed(tester, Packed(clocks={"heartbeat/0": 3_000}, wall=FAR)) == []


def test_rows_of_state_are_counted_and_one_bucket_reports_the_clock() -> None:
    tester = TwsTester(BucketProcessor(TOPICS))
    latest: dict[str, float] = {}
    for number in (0, 1):
        packed = packed_of("late-barrier-acks", slice(0, 10)) if number else Packed(clocks={"logs/0": 50_000}, wall=FAR)
        rows = tester.test(number, [Row(packed=encode_packed(packed))])
        readings = [decode_reading(value) for value in values(rows, "readings") if value is not None]
        latest |= {r.key(): r.value for r in readings if r.name in ("state_rows", "stream_time_timestamp_seconds")}
    assert latest == {"state_rows|bucket=0": 1.0, "stream_time_timestamp_seconds": 50.0, "state_rows|bucket=1": 2.0}


def test_an_error_in_a_detector_loses_its_events_to_the_dead_letters_and_nothing_else(
    tester: TwsTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The injected fault: a detector that fails. What it does not want is taken by the others all the same."""
    from detectors.kinds.checkpoints.late_barrier_acks import LateBarrierAcks

    half = len(events("late-barrier-acks")) * 6 // 10
    first = feed(tester, packed_of("late-barrier-acks", slice(0, half)))
    with monkeypatch.context() as broken:
        broken.setattr(LateBarrierAcks, "fact", lambda *_: 1 / 0)
        rows = feed(tester, packed_of("late-barrier-acks", slice(half, half + 40)))
    letters = [msgspec.json.decode(v) for v in values(rows, "rejected") if v is not None]
    assert {letter["detail"] for letter in letters} == {"ZeroDivisionError: division by zero"}
    assert {letter["event"][1] for letter in letters} <= LateBarrierAcks.event_types
    rest = feed(tester, packed_of("late-barrier-acks", slice(half + 40, None)))
    numbers = [decode_transition(v).seq for v in values(first + rest, "incidents") if v is not None]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_cluster_that_is_no_more_is_forgotten_with_its_readings(tester: TwsTester) -> None:
    """After a week without any event; otherwise every YARN application would stay for ever."""
    rows = feed(tester, packed_of("late-barrier-acks", slice(None)))
    clock = max(e.timestamp for e in events("late-barrier-acks"))
    rows += feed(tester, Packed(clocks={"heartbeat/0": clock + 10_000}, wall=FAR))
    last = {row.key: row.value for row in rows if row.topic == "readings" and b"cluster=" in row.key}
    known = {key for key, value in last.items() if value is not None}
    later = feed(tester, Packed(clocks={"heartbeat/0": clock + 8 * 86_400_000}, wall=FAR))
    assert known
    assert known <= {row.key for row in later if row.topic == "readings" and row.value is None}


def test_the_state_of_a_detector_that_cannot_be_read_is_a_dead_letter_and_counted(
    tester: TwsTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = bucket.step
    lost = [DroppedState("clickstream", "restart_loop", "Expected `array`, got `str`")]
    monkeypatch.setattr(bucket, "step", lambda *given: step(*given)._replace(dropped=lost))
    rows = feed(tester, Packed(clocks={"heartbeat/0": 60_000}, wall=FAR))
    (letter,) = [row for row in rows if row.topic == "rejected"]
    assert letter.key == b"clickstream/restart_loop"
    assert msgspec.json.decode(letter.value) == {
        "reason": "unreadable_state",
        "detail": "Expected `array`, got `str`",
        "cluster": "clickstream",
        "detector": "restart_loop",
    }
    readings = [decode_reading(value) for value in values(rows, "readings") if value is not None]
    assert [r.value for r in readings if r.labels.get("reason") == "unreadable_state"] == [1.0]


def test_clusters_for_which_there_is_no_room_are_counted_and_some_are_named(
    tester: TwsTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "MAX_CLUSTERS", 5)
    chosen = [msgspec.structs.replace(events("late-barrier-acks")[0], cluster=f"c{n}", offset=n) for n in range(30)]
    with capture_logs() as lines:
        rows = feed(tester, Packed(clocks={"logs/0": chosen[0].timestamp}, wall=FAR, events=chosen))
    letters = [msgspec.json.decode(v) for v in values(rows, "rejected") if v is not None]
    assert {letter["reason"] for letter in letters} == {"too_many_clusters"}
    assert [letter["detail"] for letter in letters] == [
        f"more than 5 clusters in this bucket: c{n}" for n in range(5, 15)
    ]
    readings = [decode_reading(v) for v in values(rows, "readings") if v is not None]
    assert [r.value for r in readings if r.labels.get("reason") == "too_many_clusters"] == [25.0]
    assert "too many clusters in one bucket" in [line["event"] for line in lines]


OWN = b"""
known_issues:
  - id: ACME-1
    title: The acme connector fails on its own
    signature: [{kinds: [restart_loop]}]
    certainty: sure
    fixed_in: acme 2
    workaround: Use acme 2 instead.
    link: https://example.org/1
"""


def test_known_issues_of_a_site_come_with_the_query() -> None:
    def named(*issues: IssueFile) -> set[str]:
        tester = TwsTester(BucketProcessor(TOPICS, issues=issues))
        rows = feed(tester, packed_of("restart-loop", slice(None)))
        told = [decode_transition(v) for v in values(rows, "incidents") if v is not None]
        return {t.known_issue.id for t in told if t.known_issue is not None}

    assert named(IssueFile("own.yaml", OWN)) == {"ACME-1"}
    assert named() == set()


def test_what_a_cluster_waits_for_is_a_reading(tester: TwsTester) -> None:
    """Only where a partition lags."""
    first = events("late-barrier-acks")[0]
    feed(tester, Packed(clocks={"heartbeat/0": first.timestamp + 20_000}, wall=FAR))
    clocks = {"heartbeat/0": first.timestamp + 40_000, "flink.logs/0": first.timestamp}
    feed(tester, Packed(clocks=clocks, wall=FAR, events=[first]))
    rows = feed(tester, Packed(clocks={"heartbeat/0": first.timestamp + 60_000}, wall=FAR))
    readings = [decode_reading(v) for v in values(rows, "readings") if v is not None]
    (waits,) = [r for r in readings if r.name == "cluster_waits_seconds"]
    assert (waits.labels, waits.value) == ({"cluster": first.cluster}, 40.0)


def test_what_tasks_have_passed_over_adds_up_by_topic_and_reason() -> None:
    tester = TwsTester(BucketProcessor(TOPICS))
    found: dict[str, float] = {}
    for at, count in ((20_000, 3), (60_000, 4)):
        ignored = {"otlp_metrics": {"unknown_metric": count, "histogram": 1}}
        rows = feed(tester, Packed(clocks={"logs/0": at}, wall=FAR, ignored=ignored))
        readings = [decode_reading(value) for value in values(rows, "readings") if value is not None]
        found = {r.key(): r.value for r in readings if r.name == "entries_ignored_total"}
    assert found == {
        "entries_ignored_total|bucket=3|reason=histogram|topic=otlp_metrics": 2.0,
        "entries_ignored_total|bucket=3|reason=unknown_metric|topic=otlp_metrics": 7.0,
    }
