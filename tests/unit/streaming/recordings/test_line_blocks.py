"""A block of lines is understood as its lines are, one by one."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.events.event import Event
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from streaming.recordings import line_blocks, log_file, log_section
from streaming.recordings.input_file import InputFile
from streaming.recordings.inputs import InputFiles

READER = Reader(Identity(), frozenset({"metrics"}))
TOPICS = ("logs", "metrics")
JOB = "e04f0bd47405a7a169914793d27ced1f"
PIECES = [
    "2026-11-21 02:14:59,758 INFO  a.B [] - nothing of interest\n",
    "2026-11-21 02:14:59,999 WARN  a.B$C [] - \u00e4 \u2028 b\n",
    "2026-11-21 02:15:03,001 [main] INFO  a.B  - in another layout\n",
    f"2026-11-21 02:15:00,000 INFO  a.B [] - Checkpoint 6 of job {JOB} expired before completing.\n",
    f"2026-11-21 02:15:02,000 INFO  a.B [] - Triggering checkpoint 7 (type=C) @ 1795227302000 for job {JOB}.\n",
    "2026-11-21 02:15:01,500 ERROR a.B [] - Fatal error occurred in the cluster entrypoint.\n",
    "2026-11-21 04:15:00,000 INFO  a.B [] - hours later\n",
    "2026-11-20 00:00:00,000 INFO  a.B [] - a day earlier\n",
    "2026-13-41 00:00:00,000 INFO  a.B [] - no such day\n",
    "2026-11-21T02:14:59.758Z stdout F 2026-11-21 02:14:59,758 INFO a.B [] - wrapped\n",
    "java.lang.IllegalStateException: too old resource version\n",
    "\tat a.B.c(B.java:1)\n",
    "\t... 3 more\n",
    "Caused by: java.io.IOException: gone\n",
    "Container: container_1_0001_01_000001 on node_1\n",
    "LogType:taskmanager.log\n",
    "output of a library\n",
    "\n",
    "  \n",
    "\r\n",
]


def events(found: InputFiles, *, every: bool) -> list[tuple[int, Event]]:
    """What the reader makes of the records, with the clock at each."""
    taken: list[tuple[int, Event]] = []
    for clock, _, record in found.arrivals(every=every):
        read = READER.read(record) if record is not None else []
        taken += [(clock, event) for event in read] if isinstance(read, list) else []
    return taken


def surveyed(path: Path, by_line: bool) -> tuple[list[InputFile], list[tuple[int, Event]]]:
    """The survey and the events of a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "_FIRST_BLOCK", 1)
        patch.setattr(line_blocks, "_BLOCK", 300)
        if by_line:
            for module in (log_file, log_section):
                patch.setattr(module, "classify", lambda _: None)
        found = InputFiles([path], READER, TOPICS)
        return found.files, events(found, every=by_line)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(*[st.sampled_from(PIECES)] * 9, st.text(max_size=20)), max_size=40), st.booleans())
def test_a_block_says_what_its_lines_say(pieces: list[str], mostly_plain: bool) -> None:
    plain = PIECES[:6] * 2 if mostly_plain else []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "jobmanager.log"
        path.write_bytes("".join([*plain, *pieces, *plain]).encode())
        assert surveyed(path, by_line=False) == surveyed(path, by_line=True)


def test_plain_lines_are_classified() -> None:
    block = line_blocks.classify("".join([*PIECES[:6], *PIECES[10:14], *PIECES[16:]]).encode())
    assert block is not None
    assert (block.lines, block.understood, int((block.times >= 0).sum())) == (11, 10, 6)
    assert [place for place, matters in enumerate(block.may_matter()) if matters][:4] == [3, 4, 5, 6]


@pytest.mark.parametrize("piece", [PIECES[8], PIECES[9], PIECES[14]])
def test_a_block_with_a_line_that_only_python_understands_is_not_classified(piece: str) -> None:
    assert line_blocks.classify("".join([PIECES[0], piece, PIECES[0]]).encode()) is None


def test_blocks_end_with_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 10_000 + b"\n" + b"y\n" * 400_000 + b"end")
    with path.open("rb") as file:
        blocks = list(line_blocks.read_blocks(file, 1 << 62))
    assert len(blocks) > 2
    assert b"".join(blocks) == path.read_bytes()
    assert all(block.endswith(b"\n") for block in blocks[:-1])


def test_records_without_events_only_advance_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "jobmanager.log"
    path.write_text(PIECES[0] * 100 + PIECES[3] + PIECES[6].replace("04:15:00", "02:15:08") * 5_000)
    found: Any = InputFiles([path], READER, TOPICS)
    relevant = list(found.arrivals())
    assert sum(one.record is not None for one in relevant) < 200
    assert [one.clock for one in relevant][-1] == [one.clock for one in found.arrivals(every=True)][-1]
