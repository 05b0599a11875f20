"""No row of the job is larger than its topic takes, whatever the records were."""

from base64 import b64decode
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from detectors.events.event import MetricEvent, Record, Rejected, Sample
from detectors.events.identity import Identity
from detectors.incident import Evidence, Reading, Series, decode_transition
from streaming.job.outlet import MAX_ROW_BYTES, Outlet
from streaming.job.read import ReadStage
from streaming.job.rows import (
    MAX_KEPT_BYTES,
    MAX_LETTER_BYTES,
    Packed,
    dead_letter,
    decode_packed,
    encode_packed,
    event_letter,
)
from streaming.job.watch import BucketProcessor, OutputTopics
from tests.unit.sinks.samples import make_transition, overdue_finding
from tests.unit.streaming.job.test_read import batch

# Each as large as a topic may take, and larger.
UNITS = [b"\x00", b"\x01", b"x", b'"', b"\n", "日".encode(), b"\xff", b"\xed\xa0\x80", "\U0001f680".encode(), b"\\"]
SIZES = [0, 1, 1_000, 180_000, 300_000, 3_000_000]
names = st.builds(lambda unit: (unit * 1_800)[:1_800].decode(errors="replace"), st.sampled_from(UNITS))
large = st.builds(lambda unit, size: unit * (size // len(unit)), st.sampled_from(UNITS), st.sampled_from(SIZES))


@settings(max_examples=60, deadline=None)
@given(key=st.none() | large, value=st.none() | large, detail=st.text(max_size=50).map(lambda t: t * 500))
def test_no_dead_letter_is_too_large_whatever_the_record(key: bytes | None, value: bytes | None, detail: str) -> None:
    record = Record("flink.logs", 3, 2**62, 5, key, value, (("h" * 300_000, b"\x00" * 300_000),))
    letter = dead_letter(Rejected("nul_byte", detail, record))
    assert len(letter.key) + len(letter.value) <= MAX_LETTER_BYTES < MAX_ROW_BYTES
    read = msgspec.json.decode(letter.value)
    assert (read["topic"], read["partition"], read["offset"]) == ("flink.logs", 3, 2**62)
    assert read["size"] == len(value or b"")
    assert read["truncated"] == (len(value or b"") > MAX_KEPT_BYTES)


@pytest.mark.parametrize("unit", UNITS)
def test_a_value_up_to_256_kib_is_kept_whole(unit: bytes) -> None:
    value = unit * (MAX_KEPT_BYTES // len(unit))
    read = msgspec.json.decode(dead_letter(Rejected("r", "d", Record("t", 0, 0, 0, None, value))).value)
    text = read["value"]
    assert (text.encode() if text is not None else b64decode(read["value_b64"])) == value


@settings(max_examples=40, deadline=None)
@given(
    count=st.sampled_from([0, 1, 100, 7_900]),
    labels=st.dictionaries(st.sampled_from(["job_name", "tm_id", "task_name"]), names),
)
def test_no_letter_of_a_defect_is_too_large(count: int, labels: dict[str, str]) -> None:
    samples = [Sample("heap_used", labels, 1e300)] * count
    event = MetricEvent("c", "s", "h", 5, 5, "flink.metrics", 0, 7, samples)
    letter = event_letter(event, "ValueError: " + "\x00" * 1_000_000)
    assert len(letter.key) + len(letter.value) <= MAX_LETTER_BYTES
    read = msgspec.json.decode(letter.value)
    assert read["reason"] == "defect"
    assert read["event"][7:9] == [0, 7] or read["event"][6:8] == ["flink.metrics", 0]


def worst(text: str) -> Any:
    finding = overdue_finding(
        summary=text,
        advice=text,
        entity=dict.fromkeys(("cluster", "job_name", "task", "tm_id", "host"), text),
        evidence=[Evidence("flink.logs", 0, 7, 5, text)] * 20,
        series=Series("duration", "s", [(5, 1.0)] * 64),
    )
    return make_transition(findings=[finding] * 20, evidence=finding.evidence, summary=text, advice=text, job_name=text)


@settings(max_examples=30, deadline=None)
@given(
    text=names,
    limit=st.sampled_from([60_000, 200_000, MAX_ROW_BYTES]),
)
def test_a_transition_that_is_too_large_is_written_with_less_evidence(text: str, limit: int) -> None:
    outlet, transition = Outlet(limit), worst(text)
    whole = msgspec.json.encode(transition)
    sent = outlet.transition(transition)
    letters, cut = outlet.taken()
    assert sent is not None
    assert sent.value is not None
    assert len(sent.key) + len(sent.value) <= limit
    assert letters == []
    if len(whole) + len(sent.key) <= limit:
        assert (sent.value, cut) == (whole, {})
        return
    assert cut == {"incidents": 1}
    transition_read = decode_transition(sent.value)
    assert (transition_read.incident, transition_read.seq, transition_read.cause, transition_read.severity) == (
        transition.incident,
        transition.seq,
        transition.cause,
        transition.severity,
    )
    assert transition_read.findings
    assert transition_read.more + len(transition_read.findings) == 20


def test_a_reading_that_is_too_large_is_replaced_by_a_letter() -> None:
    outlet = Outlet()
    assert outlet.reading(Reading(name="up", labels={"cluster": "\x00" * 300_000}, value=1.0, at=5)) is None
    assert outlet.gone("up|cluster=" + "x" * 2_000_000) is None
    (letter,), cut = outlet.taken()
    assert letter.reason == "output_too_large"
    assert len(letter.key) + len(letter.value) < 3_000
    assert cut == {"readings": 1}


def test_a_topic_that_takes_less_gets_the_beginning_of_a_letter() -> None:
    outlet = Outlet(50_000)
    sent = outlet.letter(dead_letter(Rejected("nul_byte", "d", Record("t", 0, 1, 0, None, b"\x00" * 300_000))))
    assert sent is not None
    assert 40_000 < len(sent.key) + len(sent.value or b"") <= 50_000
    assert msgspec.json.decode(sent.value or b"")["reason"] == "nul_byte"
    assert outlet.taken() == ([], {"rejected": 1})


@pytest.mark.parametrize("limit", [1_000, 20_000, 1_048_000])
def test_no_row_of_a_batch_is_too_large_and_what_was_cut_is_counted(limit: int) -> None:
    """The record of 300,000 NUL bytes, and a limit of the topic that is set low."""
    tester = TwsTester(BucketProcessor(OutputTopics("incidents", "readings", "rejected", limit)))
    letter = dead_letter(Rejected("nul_byte", "d", Record("logs", 0, 1, 0, None, b"\x00" * 300_000)))
    rows: list[Row] = []
    for at in (1_000, 30_000, 60_000):
        packed = Packed(clocks={"logs/0": at}, wall=10**12, records=1, rejected=[letter] if at < 60_000 else [])
        rows += tester.test(0, [Row(packed=encode_packed(packed))])
    assert all(len(row.key) + len(row.value or b"") <= limit for row in rows)
    counts = {r["name"]: r["value"] for r in map(msgspec.json.decode, [r.value for r in rows if r.topic == "readings"])}
    assert counts["records_rejected_total"] == 2
    assert counts.get("outputs_cut_total", 0) == (0 if limit > 400_000 else 2)


def test_the_letters_of_one_task_are_bounded_together() -> None:
    """A backlog of large records that are all rejected does not fill the memory."""
    value = b"\x00" * 500_000
    records = [Record("flink.logs", 0, n, 5, b"prod/jm-1", value) for n in range(30)]
    stage = ReadStage(Identity(), ("flink.metrics",), "flinkwatch.config", "flinkwatch.heartbeat", 2)
    rows = [row.as_py() for out in stage.run(batch(records) for _ in range(10)) for row in out.column(1)]
    letters = [letter for row in rows for letter in decode_packed(row).rejected]
    assert len(letters) == 300
    assert sum(len(letter.value) for letter in letters) < 66 * 1024 * 1024
    assert {msgspec.json.decode(letter.value)["truncated"] for letter in letters} == {True}
