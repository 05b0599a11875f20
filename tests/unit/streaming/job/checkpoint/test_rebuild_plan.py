"""What a job that begins on a rebuilt checkpoint writes."""

from pathlib import Path

import msgspec
import pytest

from detectors.incident import Evidence, Transition
from streaming.errors import PreflightError
from streaming.job.checkpoint.rebuild_plan import NO_PLAN, RebuildPlan, read_plan, write_plan


def change(incident: str, seq: int, at: int) -> Transition:
    return Transition(
        incident=incident,
        seq=seq,
        transition="updated",
        at=at,
        cluster="c",
        cause="x",
        severity="warning",
        summary="s",
        findings=[],
        evidence=[],
    )


def numbers(plan: RebuildPlan, *transitions: Transition) -> list[tuple[str, int]]:
    return [(t.incident, t.seq) for t in plan.unwritten(transitions)]


def test_what_the_job_before_has_written_is_not_written_again() -> None:
    plan = RebuildPlan(until=100)
    assert numbers(plan, change("a", 1, 50), change("a", 2, 99), change("a", 3, 100)) == [("a", 3)]


def test_a_known_incident_goes_on_above_the_numbers_it_had() -> None:
    """Found with less history it may have had fewer changes: a lower number would be skipped by delivery."""
    plan = RebuildPlan(until=100, known={"a": 16})
    assert numbers(plan, change("a", 5, 90), change("a", 6, 120), change("a", 7, 130), change("b", 1, 120)) == [
        ("a", 22),
        ("a", 23),
        ("b", 1),
    ]


def test_what_a_record_shows_that_was_not_read_is_new_whatever_its_time() -> None:
    """A partition that lagged brings records from before the time to which the others had come."""
    plan = RebuildPlan(until=100, read={"in": {"0": 7}})
    seen = msgspec.structs.replace(change("a", 1, 50), evidence=[Evidence("in", 0, 6, 50, "x")])
    unseen = msgspec.structs.replace(
        change("b", 1, 50), evidence=[Evidence("in", 0, 6, 50, "x"), Evidence("in", 0, 7, 50, "x")]
    )
    assert numbers(plan, seen, unseen) == [("b", 1)]


def test_it_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_plan(str(tmp_path)) == NO_PLAN
    assert read_plan("s3a://bucket/state") == NO_PLAN
    plan = RebuildPlan(5, {"in": {"0": 7}}, {"a": 1}, {"in": {"0": 3}})
    write_plan(tmp_path, plan)
    assert read_plan(str(tmp_path)) == plan
    (tmp_path / "flinkwatch.rebuild.json").write_bytes(b"{")
    with pytest.raises(PreflightError, match="run `flinkwatch rebuild` again"):
        read_plan(str(tmp_path))
