"""How many processes in a row ended during the same batch, as a file of the checkpoint says."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from streaming.job.checkpoint import hadoop, starts
from streaming.job.checkpoint.starts import Start, keep_limit, note_end, note_start
from tests.unit.streaming.job.checkpoint.local_folder import LocalFolder, empty_checkpoint, finish, plan


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(hadoop, "HadoopFolder", LocalFolder)
    monkeypatch.setattr(starts, "HadoopFolder", LocalFolder)
    return empty_checkpoint(tmp_path)


def note(place: Path) -> Start:
    return note_start(Mock(), str(place))


def test_processes_that_ended_during_the_same_batch_are_counted(place: Path) -> None:
    assert note(place) == Start()
    plan(place, 0, {"logs": {"0": 100}})
    assert [note(place).ended for _ in range(3)] == [1, 2, 3]
    finish(place, 0)
    assert note(place) == Start()
    plan(place, 1, {"logs": {"0": 200}})
    assert note(place) == Start(batch=1, ended=1)


def test_a_process_that_ends_by_itself_was_not_killed(place: Path) -> None:
    plan(place, 4, {"logs": {"0": 100}})
    for _ in range(3):
        start = keep_limit(Mock(), str(place), note(place), 125_000)
        assert start.ended == 1
        note_end(Mock(), str(place), start)
    assert note(place) == Start(batch=4, ended=1, max_offsets=125_000)


def test_another_batch_is_counted_anew(place: Path) -> None:
    plan(place, 4, {"logs": {"0": 100}})
    assert [note(place).ended for _ in range(2)] == [1, 2]
    finish(place, 4)
    plan(place, 5, {"logs": {"0": 200}})
    assert note(place).ended == 1


def test_the_limit_is_kept_for_the_next_process_whatever_its_batch(place: Path) -> None:
    plan(place, 4, {"logs": {"0": 100}})
    start = keep_limit(Mock(), str(place), note(place), 125_000)
    assert start == Start(batch=4, ended=1, max_offsets=125_000)
    assert note(place) == Start(batch=4, ended=2, max_offsets=125_000)
    finish(place, 4)
    assert note(place) == Start(max_offsets=125_000)


def test_a_start_that_changes_nothing_writes_nothing(place: Path) -> None:
    """A disk that is full takes nothing."""
    start = note(place)
    assert keep_limit(Mock(), str(place), start, 0) == start
    assert not (place / "flinkwatch-starts.json").exists()


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"\xff", b"[]", b'{"batch":"x"}', b'{"other":3}', b'{"max_offsets":-5}']
)
def test_a_damaged_file_counts_as_none(place: Path, damaged: bytes) -> None:
    plan(place, 4, {"logs": {"0": 100}})
    (place / "flinkwatch-starts.json").write_bytes(damaged)
    assert note(place) == Start(batch=4, ended=1)
    assert note(place) == Start(batch=4, ended=2)
