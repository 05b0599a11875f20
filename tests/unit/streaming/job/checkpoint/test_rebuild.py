"""What `flinkwatch rebuild` takes from the old checkpoint and from Kafka, in parts."""

from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from click.testing import CliRunner
from kafka import TopicPartition

from detectors.incident import Change, Finding, Transition, decode_transition
from streaming.cli.main import cli
from streaming.configuration.settings import Kafka, Settings
from streaming.job.checkpoint import rebuild
from streaming.job.checkpoint.rebuild import Known, RebuildError
from streaming.job.checkpoint.rebuild_plan import RebuildPlan, read_plan


def known(incident: str, change: Change, since: int, seq: int = 3, at: int = 1_000) -> Known:
    finding = Finding(kind="x", subject="s", entity={}, since=since, at=at, severity="warning", summary="s")
    last = Transition(
        incident=incident,
        seq=seq,
        transition=change,
        at=at,
        cluster="c",
        cause="x",
        severity="warning",
        summary="s",
        findings=[finding],
        evidence=[],
    )
    return Known(1, last)


def test_the_newest_committed_batch_that_can_be_read_says_how_far_the_old_job_was(tmp_path: Path) -> None:
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    for batch, data in enumerate((b'v1\n{}\n{"in":{"0":5}}', b'v1\n{}\n{"in":{"0":9,"1":4}}', b"v1\n{}\n{cut", b"v1")):
        (tmp_path / "offsets" / str(batch)).write_bytes(data)
    for batch in (0, 1, 2):
        (tmp_path / "commits" / str(batch)).write_bytes(b"v1\n{}")
    expected = {TopicPartition("in", 0): 9, TopicPartition("in", 1): 4}
    assert rebuild.read_before(tmp_path) == expected
    assert rebuild.read_before(tmp_path / "none") == {}


def test_open_incidents_that_began_before_what_is_read_end_as_stale() -> None:
    producer = Mock()
    all_known = {
        "early": known("early", "updated", since=10),
        "over": known("over", "resolved", since=10),
        "later": known("later", "opened", since=60),
    }
    assert rebuild.end_lost(producer, Kafka(), all_known, first=50, now=2_000) == {"early"}
    (call,) = producer.send.call_args_list
    result = decode_transition(call.kwargs["value"])
    assert (result.incident, result.seq, result.transition, result.at) == ("early", 4, "stale", 2_000)
    assert (call.kwargs["key"], call.kwargs["partition"]) == (b"early", 1)
    assert all_known["early"].transition.seq == 4


def test_numbers_are_kept_of_what_may_go_on() -> None:
    hour = 3_600_000
    all_known = {
        "open": known("open", "updated", since=1, at=0),
        "just over": known("just over", "resolved", since=1, at=9 * hour + 1),
        "long over": known("long over", "resolved", since=1, at=8 * hour),
    }
    assert set(rebuild.may_change(all_known, set(), until=10 * hour)) == {"open", "just over"}


def test_the_old_checkpoint_is_moved_aside_and_never_deleted(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "metadata").write_text("first")
    (tmp_path / "flinkwatch.lock").touch()
    first = rebuild.replace(tmp_path, RebuildPlan(until=1), 0)
    assert first == tmp_path / "before-rebuild-19700101T000000Z"
    assert (first / "metadata").read_text() == "first"
    assert (first / "state").is_dir()
    second = rebuild.replace(tmp_path, RebuildPlan(until=2), 60_000)
    assert second is not None
    assert read_plan(str(second)) == RebuildPlan(until=1)
    assert read_plan(str(tmp_path)) == RebuildPlan(until=2)
    assert (first / "metadata").read_text() == "first"
    assert (tmp_path / "flinkwatch.lock").exists()


def test_a_checkpoint_elsewhere_is_refused_with_what_to_do() -> None:
    settings = Settings.model_validate({"streaming": {"checkpoint": "s3a://bucket/state"}})
    with pytest.raises(RebuildError, match="is not on this host"):
        rebuild.rebuild(settings, None, 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("2h", None), ("2026-11-21T22:00:00Z", 1_795_298_400_000), ("2026-11-21", 1_795_219_200_000)],
)
def test_a_time_is_a_duration_or_a_date(
    given: str, expected: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = Mock(return_value=rebuild.RebuildResult(tmp_path, 0, ["id"]))
    monkeypatch.setattr(rebuild, "rebuild", asked)
    result = CliRunner().invoke(cli, ["rebuild", "--from", given])
    assert result.exit_code == 0
    assert "not notified again" in result.output
    since, now = asked.call_args.args[1:]
    assert since == (pytest.approx(now - 7_200_000, abs=60_000) if expected is None else expected)


def test_another_word_is_refused() -> None:
    result = CliRunner().invoke(cli, ["rebuild", "--from", "yesterday"])
    assert result.exit_code == 2
    assert "neither a duration such as 2h nor a time" in result.output


def test_it_is_written_as_the_job_reads_it() -> None:
    assert msgspec.json.decode(msgspec.json.encode(RebuildPlan()), type=RebuildPlan) == RebuildPlan()
