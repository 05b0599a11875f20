"""A log that grows: each complete line once, through rotation and truncation, with the number it has in its file."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from detectors.events.identity import Identity
from detectors.events.reader import Reader
from streaming.recordings.followed_log import FileTail, FollowedLog
from streaming.recordings.log_file import survey

READER = Reader(Identity(), frozenset({"metrics"}))
LINE = "2026-11-21 02:14:59,758 INFO  a.B [] - "


class Growing:
    """A log that is followed since its first content."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        path.write_text(text)
        log = survey(path, path.name, READER)
        self.log = log
        self.tail = FileTail(path, log.tail.begin)
        self._followed = FollowedLog(log, self.tail.read)

    def add(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def new(self) -> list[tuple[int, str]]:
        """The number and text of each new line."""
        return [(r.offset, (r.value or b"").decode().removeprefix(LINE)) for r in self._followed.records(7)]


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    one = Growing(tmp_path / "flink-flink-taskexecutor-0-tm-2.log", f"{LINE}one\n\n{LINE}two\n")
    yield one
    one.tail.close()


def test_lines_that_are_written_later_are_read_once(growing: Growing) -> None:
    assert growing.new() == []
    growing.add(f"{LINE}three\n{LINE}four\n")
    assert growing.new() == [(4, "three"), (5, "four")]
    assert growing.new() == []
    assert (growing.log.lines, growing.log.understood) == (4, 4)


def test_a_line_is_read_when_it_is_complete(growing: Growing) -> None:
    growing.add(f"{LINE}thr")
    assert growing.new() == []
    growing.add("ee\n")
    assert growing.new() == [(4, "three")]


def test_a_line_that_was_not_complete_at_the_beginning_is_read_as_a_whole(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a.log", f"{LINE}one\n{LINE}tw")
    growing.add("o\n")
    assert growing.new() == [(2, "two")]
    growing.tail.close()


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(growing: Growing) -> None:
    growing.add(f"{LINE}three\n")
    growing.path.rename(f"{growing.path}.1")
    assert growing.new() == [(4, "three")]
    with Path(f"{growing.path}.1").open("a") as old:
        old.write(f"{LINE}four\n")
    growing.path.write_text(f"{LINE}five\n")
    assert growing.new() == [(5, "four"), (1, "five")]


def test_a_truncated_file_is_read_from_its_beginning(growing: Growing) -> None:
    os.truncate(growing.path, 0)
    growing.add(f"{LINE}x\n")
    assert growing.new() == [(1, "x")]


def test_a_file_that_was_empty_has_the_format_of_its_first_lines(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a.log", "")
    assert growing.log.problem == "empty"
    growing.add(f"[pod/tm-2/main] {LINE}one\n")
    assert growing.new() == [(1, "one")]
    assert (growing.log.problem, growing.log.format.name) == ("", "`kubectl logs --prefix`")
    growing.tail.close()


def test_new_lines_arrive_now_from_the_host_in_the_name_of_the_file(growing: Growing) -> None:
    growing.add(f"{LINE}three\n")
    (record,) = FollowedLog(growing.log, growing.tail.read).records(1_234)
    assert (record.timestamp, dict(record.headers)["host"]) == (1_234, b"tm-2")
