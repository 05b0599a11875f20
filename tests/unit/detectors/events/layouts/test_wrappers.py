"""What tools put around a line: whatever a file holds, reading it raises nothing."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.events.layouts.wrappers import FORMATS, PLAIN, continues, guess, head, zone_of
from detectors.events.layouts.yarn_aggregate import NO_PART, part_of

LINE = b"2026-11-21 02:14:59,758 INFO  o.a.f.CheckpointCoordinator [] - Completed checkpoint 11"
TIME = b"2026-11-21T02:14:59.758123456Z"
MS = int(datetime(2026, 11, 21, 2, 14, 59, 758_000, tzinfo=UTC).timestamp() * 1000)
PREFIXES = [
    b"",
    b"[pod/a/b] ",
    TIME + b" ",
    TIME + b" stdout F ",
    b'{"log":"',
    b"web-1  | ",
    b'{"message":"',
    b"LogType:",
]


@given(st.sampled_from(PREFIXES), st.binary(max_size=300))
def test_no_line_raises_in_any_format(prefix: bytes, rest: bytes) -> None:
    line = prefix + rest
    for each in FORMATS:
        each.unwrap(line)
    guess([line])
    part_of(line, NO_PART)
    text = line.decode(errors="replace")
    head(text)
    continues(text)


@pytest.mark.parametrize(
    ("line", "name", "arrival"),
    [
        (LINE, "a log file", -1),
        (b"[pod/jm-0/flink] " + LINE, "`kubectl logs --prefix`", -1),
        (TIME + b" " + LINE, "`kubectl logs --timestamps`", MS),
        (b"[pod/jm-0/flink] " + TIME + b" " + LINE, "`kubectl logs --prefix --timestamps`", MS),
        (TIME + b" stderr F " + LINE, "a container runtime's log (CRI, /var/log/containers)", MS),
        (b'{"log":"' + LINE + b'\\n","stream":"stdout","time":"' + TIME + b'"}', "Docker's json-file", MS),
        (b"jobmanager-1  | " + LINE, "`docker compose logs`", -1),
        (b'{"@timestamp":"' + TIME + b'","message":"' + LINE + b'"}', "documents of a log shipper", MS),
    ],
)
def test_a_format_is_reported_by_what_is_inside(line: bytes, name: str, arrival: int) -> None:
    found, understood = guess([line, line, b"a line of Java's own"])
    assert (found.name, understood) == (name, True)
    inner = found.unwrap(line)
    assert inner is not None
    assert (inner.text, inner.arrival) == (LINE, arrival)


def test_what_log4j_prints_of_itself_has_its_own_time_and_no_head() -> None:
    line = b"2026-11-21T03:21:10.445429728Z main ERROR An exception occurred processing Appender MainAppender"
    inner = PLAIN.unwrap(line)
    assert inner is not None
    assert inner.arrival == MS + 3_970_687
    assert head(line.decode()) is None


@given(st.integers(-60, 60), st.integers(0, 2**41), st.integers(-400_000, 400_000))
def test_a_zone_is_a_multiple_of_a_quarter_of_an_hour(quarters: int, utc: int, late: int) -> None:
    assert zone_of(utc + quarters * 900_000 + late, utc) == quarters * 900_000
    assert zone_of(utc + 16 * 3_600_000, utc) is None
