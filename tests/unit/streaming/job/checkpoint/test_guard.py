"""A checkpoint is continued by a version that reads its state, and otherwise refused with the way out."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from detectors.engine.state import STATE_VERSION
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.checkpoint import guard
from streaming.job.checkpoint.guard import Layout, layout_of, refusal
from tests.unit.streaming.job.checkpoint.local_folder import LocalFolder

NOW = layout_of(Settings())


def changed(**fields: Any) -> Layout:
    return msgspec.structs.replace(NOW, **fields)


def test_the_same_layout_is_continued_also_if_another_build_with_the_same_formats_wrote_it() -> None:
    assert refusal(NOW, NOW) == refusal(changed(written_by="9.9"), NOW) == ""


@pytest.mark.parametrize("name", ["buckets", "shuffle_partitions"])
def test_other_buckets_or_partitions_are_refused_with_the_commands_that_move_the_state(name: str) -> None:
    problem = refusal(changed(**{name: 3}), NOW)
    assert f"{name} is now {getattr(NOW, name)}, was 3 at the first start" in problem
    assert "flinkwatch state export" in problem


@pytest.mark.parametrize("name", ["state_version", "index_version"])
def test_a_downgrade_is_refused_with_the_version_that_wrote_the_checkpoint(name: str) -> None:
    problem = refusal(changed(**{name: getattr(NOW, name) + 1, "written_by": "0.9.2"}), NOW)
    assert "was written by flinkwatch 0.9.2, which is newer" in problem
    assert "Start that version again, restore the copy" in problem
    assert "flinkwatch rebuild" in problem


def test_a_version_that_no_migration_reads_is_refused_as_too_old() -> None:
    assert "by flinkwatch 0.0.1, which is too old" in refusal(changed(state_version=1, written_by="0.0.1"), NOW)
    assert "by flinkwatch a build before 0.1, which" in refusal(changed(state_version=1, written_by=""), NOW)


def check(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(guard, "HadoopFolder", LocalFolder)
    guard.check_layout(SimpleNamespace(), Settings.model_validate({"streaming": {"checkpoint": str(folder)}}))  # type: ignore[arg-type]
    found: dict[str, Any] = json.loads((folder / "flinkwatch.json").read_text())
    return found


def test_a_start_marks_the_checkpoint_with_its_version_and_a_refused_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "flinkwatch.json"
    # As a build before 0.1 has written it.
    old = {"buckets": NOW.buckets, "shuffle_partitions": NOW.shuffle_partitions, "state_version": STATE_VERSION}
    file.write_text(json.dumps(old))
    assert check(tmp_path, monkeypatch) == msgspec.to_builtins(NOW)
    newer = json.dumps(msgspec.to_builtins(changed(state_version=STATE_VERSION + 1)))
    file.write_text(newer)
    with pytest.raises(PreflightError, match="which is newer"):
        check(tmp_path, monkeypatch)
    assert file.read_text() == newer
    file.write_text('{"buckets": "many"}')
    with pytest.raises(PreflightError, match="is damaged"):
        check(tmp_path, monkeypatch)
