"""Inputs that grow: the past by its own times, then the present, with or without records."""

import os
from pathlib import Path

from detectors.events.identity import Identity
from detectors.events.reader import Reader
from streaming.recordings.follow import FollowedInputs, now_ms
from streaming.recordings.inputs import InputFiles
from streaming.threads import Stop

LINE = "2026-11-21 02:14:59,758 INFO  a.B [] - "
AT = 1_795_227_299_758
"""The time in the line, as UTC."""


class StopAfter(Stop):
    """Stops after so many looks for new records."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def wait(self, seconds: float) -> bool:
        self.looks -= seconds > 0
        return self.looks <= 0


def inputs(*paths: Path) -> InputFiles:
    return InputFiles(paths, Reader(Identity(), frozenset({"metrics"})), ("logs", "metrics"))


def test_the_clock_goes_from_the_time_of_the_lines_to_the_present_and_advances_without_records(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"{LINE}one\n")
    os.utime(log, (AT / 1000, AT / 1000))
    before = now_ms()
    found = list(FollowedInputs(inputs(log), StopAfter(3), stdin=None, samples=None).arrivals())
    assert found[0].clock == AT
    assert [one.record for one in found[1:]] == [None] * 3
    clocks = [one.clock for one in found[1:]]
    assert clocks == sorted(clocks)
    assert before <= clocks[0] <= clocks[-1] <= now_ms()


def test_the_zone_of_a_log_that_grows_is_known_from_the_time_of_its_file(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"{LINE}one\n")
    written = AT / 1000 - 2 * 3_600 + 3
    os.utime(log, (written, written))
    found = inputs(log)
    FollowedInputs(found, StopAfter(1), stdin=None, samples=None)
    assert found.zone == 2 * 3_600_000


def test_no_line_of_the_past_is_later_than_the_present(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LINE.replace("2026", "2096") + "one\n")
    found = next(FollowedInputs(inputs(log), StopAfter(1), stdin=None, samples=None).arrivals())
    assert found.clock <= now_ms()
    assert found.record is None or found.record.timestamp <= now_ms()
