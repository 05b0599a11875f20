"""The batch that was planned and not finished is shortened. Files as Spark writes them, without Hadoop."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.job.checkpoint import hadoop
from streaming.job.checkpoint.offset_log import newest_batch, shorten_planned, shortened
from streaming.job.checkpoint.offsets import between
from tests.unit.streaming.job.checkpoint.local_folder import LocalFolder, empty_checkpoint, finish, plan


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkpoint without batches."""
    monkeypatch.setattr(hadoop, "HadoopFolder", LocalFolder)
    return empty_checkpoint(tmp_path)


def test_every_partition_keeps_its_share_of_the_batch() -> None:
    begins = {"logs": {"0": 100, "1": 0}, "heartbeat": {"0": 7}}
    ends = {"logs": {"0": 700, "1": 300}, "heartbeat": {"0": 17}}
    assert shortened(begins, ends, 91) == {"logs": {"0": 160, "1": 30}, "heartbeat": {"0": 8}}
    assert shortened(begins, ends, 910) == ends


def test_partitions_that_are_new_or_began_again_keep_their_ends() -> None:
    """A topic that was created again is read from its beginning, which the checkpoint already says."""
    begins = {"logs": {"0": 1_000, "1": 0}}
    ends = {"logs": {"0": 0, "1": 1_000, "2": 5_000}, "new": {"0": 3}}
    assert shortened(begins, ends, 100) == {"logs": {"0": 0, "1": 100, "2": 5_000}, "new": {"0": 3}}


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**7)), min_size=1, max_size=9), st.integers(1, 10**6)
)
def test_a_shortened_batch_has_the_limit_and_one_more_per_partition_at_most(
    parts: list[tuple[int, int]], limit: int
) -> None:
    begins = {"logs": {str(n): begin for n, (begin, _) in enumerate(parts)}}
    ends = {"logs": {str(n): begin + count for n, (begin, count) in enumerate(parts)}}
    found = shortened(begins, ends, limit)
    assert min(limit, between(begins, ends)) <= between(begins, found) <= limit + len(parts)
    for partition, (begin, count) in enumerate(parts):
        read = found["logs"][str(partition)] - begin
        assert min(count, 1) <= read <= count


def test_the_batch_that_was_not_finished_is_shortened_in_its_file(place: Path) -> None:
    plan(place, 4, {"logs": {"0": 100}})
    finish(place, 4)
    plan(place, 5, {"logs": {"0": 900}})
    assert shorten_planned(Mock(), str(place), 200) == 800
    assert (place / "offsets" / "5").read_text() == 'v1\n{"batchWatermarkMs":0}\n{"logs":{"0":300}}'
    assert shorten_planned(Mock(), str(place), 200) == 0
    assert shorten_planned(Mock(), str(place), 50) == 200


def test_the_first_batch_begins_where_its_source_begins(place: Path) -> None:
    """Spark writes a zero byte before the version."""
    (place / "sources" / "0" / "0").write_bytes(b'\0v1\n{"logs":{"0":40}}')
    plan(place, 0, {"logs": {"0": 440}})
    assert shorten_planned(Mock(), str(place), 100) == 400
    batch = newest_batch(LocalFolder(None, str(place)))
    assert batch is not None
    assert batch.ends == {"logs": {"0": 140}}


def test_a_finished_batch_and_one_without_a_known_begin_stay_as_they_are(place: Path) -> None:
    assert shorten_planned(Mock(), str(place), 1) == 0
    plan(place, 7, {"logs": {"0": 900}})
    assert shorten_planned(Mock(), str(place), 1) == 0
    plan(place, 6, {"logs": {"0": 100}})
    finish(place, 7)
    assert shorten_planned(Mock(), str(place), 1) == 0
    (place / "commits" / "7").unlink()
    (place / "offsets" / "7").write_text("v1\n{}\n{")
    assert shorten_planned(Mock(), str(place), 1) == 0
