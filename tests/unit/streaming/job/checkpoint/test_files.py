"""Damaged files of a checkpoint are found and named."""

import struct
import zlib
from pathlib import Path

import pytest

from streaming.job.checkpoint.files import damage_in, local_path


def put(folder: Path, name: str, data: bytes) -> Path:
    """A file as Hadoop writes it, with its checksums next to it."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    sums = b"".join(struct.pack("!I", zlib.crc32(data[i : i + 512])) for i in range(0, len(data), 512))
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + struct.pack("!i", 512) + sums)
    return file


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    put(tmp_path, "metadata", b'{"id":"1"}')
    for batch in (0, 1):
        put(tmp_path, f"offsets/{batch}", b'v1\n{"batchWatermarkMs":0}\n{"in":{"0":12}}')
        put(tmp_path, f"commits/{batch}", b'v2\n{"nextBatchWatermarkMs":0}')
    put(tmp_path, "state/0/0/1_a.changelog", bytes(range(256)) * 5)
    return tmp_path


def test_nothing_is_found_in_a_whole_one(checkpoint: Path) -> None:
    assert damage_in(str(checkpoint)) == ""
    assert damage_in(f"file://{checkpoint}") == ""


@pytest.mark.parametrize("name", ["metadata", "offsets/1", "commits/1", "state/0/0/1_a.changelog"])
def test_an_empty_a_cut_and_a_changed_file_are_named(checkpoint: Path, name: str) -> None:
    file = checkpoint / name
    whole = file.read_bytes()
    for data in (b"", whole[: len(whole) // 2], whole[:5] + b"\xff" + whole[6:]):
        file.write_bytes(data)
        line = damage_in(str(checkpoint))
        assert line.startswith(str(file))
        assert "flinkwatch rebuild" in line


def test_the_newest_log_can_be_moved_away_and_an_older_one_cannot(checkpoint: Path) -> None:
    (checkpoint / "offsets/1").write_bytes(b"")
    assert f"move {checkpoint}/offsets/1 and {checkpoint}/commits/1 away" in damage_in(str(checkpoint))
    (checkpoint / "offsets/1").write_bytes((checkpoint / "offsets/0").read_bytes())
    (checkpoint / "commits/0").write_bytes(b"")
    assert "move" not in damage_in(str(checkpoint))


def test_a_checkpoint_elsewhere_cannot_be_looked_at() -> None:
    assert local_path("s3a://bucket/state") is None
    assert local_path("/var/lib/flinkwatch") == local_path("file:///var/lib/flinkwatch") == Path("/var/lib/flinkwatch")
    assert damage_in("s3a://bucket/state") == ""


def test_a_checkpoint_that_may_not_be_read_is_not_damaged(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own error is reported, and not one of the search for damage; root, who runs some tests, may read anything."""

    def refused(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refused)
    assert damage_in(str(checkpoint)) == ""
