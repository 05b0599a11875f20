"""Two configurations over the same recordings: which incidents change, and how."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from detectors.settings.live import LiveSettings
from streaming.cli.main import cli
from streaming.configuration.settings import Settings
from streaming.errors import RecordingError
from streaming.tuning import events
from streaming.tuning.compare import Comparison, Replayed, compare
from streaming.tuning.events import pieces, streams
from streaming.tuning.incidents import ReplayedIncident, paired
from tests.recorded import recording, records, said, summary

SETTINGS = Settings()
OLD = LiveSettings()


HUNG, CREEP, ACKS = (recording(n) for n in ("checkpoint-hung-then-done", "checkpoint-creep", "late-barrier-acks"))


def live(**detectors: dict[str, Any]) -> LiveSettings:
    return LiveSettings.model_validate({"detectors": detectors})


@pytest.mark.parametrize(
    "name", ["checkpoint-hung-then-done", "restart-loop", "taskmanager-killed", "zookeeper-killed"]
)
def test_it_finds_the_incidents_of_a_replay(name: str) -> None:
    replayed = Replayed(OLD)
    for batches in pieces((recording(name),), SETTINGS):
        replayed.take(batches)
    incident_of = [(t.cause, t.severity, t.opened_at) for t in replayed.incidents()]
    whole = [i for i in summary(said(records(name))) if i["end"] != "merged"]
    assert incident_of == [(i["cause"], i["severity"], i["opened_at"]) for i in whole]
    assert incident_of


def test_the_same_configuration_changes_nothing() -> None:
    found = compare([HUNG, ACKS], OLD, live(), SETTINGS)
    assert (found.added, found.removed, found.same) == ([], [], 2)
    assert not any(found.moved().values())
    assert not found.exceeds()


def test_another_limit_makes_an_incident_later_and_too_high_a_one_loses_it() -> None:
    later = compare([HUNG], OLD, live(checkpoint_overdue={"min_age": "40s"}), SETTINGS)
    assert [m.new.opened_at - m.old.opened_at for m in later.later] == [10_000]
    assert not later.exceeds()
    lost = compare([HUNG], OLD, live(checkpoint_overdue={"min_age": "5m"}), SETTINGS)
    assert [(t.cause, t.job) for t in lost.removed] == [("checkpoint_overdue", "orders")]
    assert lost.exceeds()
    assert not lost.exceeds(max_lost=1)


def test_old_and_new_change_places() -> None:
    other = live(checkpoint_overdue={"min_age": "5m"})
    found = compare([HUNG], other, OLD, SETTINGS)
    assert [t.cause for t in found.added] == ["checkpoint_overdue"]
    assert found.exceeds(max_lost=9)
    earlier = compare([HUNG], live(checkpoint_overdue={"min_age": "40s"}), OLD, SETTINGS)
    assert len(earlier.earlier) == 1


def test_another_cause_and_severity_belong_to_the_same_incident() -> None:
    found = compare([ACKS], OLD, live(late_barrier_acks={"enabled": False}), SETTINGS)
    assert (found.added, found.removed) == ([], [])
    assert [m.old.cause for m in found.cause_changed] == ["late_barrier_acks"]
    assert found.cause_changed[0].new.cause != "late_barrier_acks"
    milder = compare([CREEP], OLD, live(checkpoint_duration_creep={"critical_within": "1s"}), SETTINGS)
    assert [(m.old.severity, m.new.severity) for m in milder.severity_changed] == [("critical", "warning")]


def test_a_silence_hides_an_incident_and_loses_none() -> None:
    silence = {"job": "orders", "until": "2126-01-01T00:00:00Z", "author": "ann", "comment": "known"}
    found = compare([HUNG], OLD, LiveSettings.model_validate({"silences": [silence]}), SETTINGS)
    assert [m.new.job for m in found.silenced] == ["orders"]
    assert not found.exceeds()


def incident_of(
    incident: str, began: int, ended: int | None, *subjects: str, job: str = "a", cluster: str = "c"
) -> ReplayedIncident:
    findings = {("kind", s): (began, 1 << 62 if ended is None else ended) for s in subjects}
    return ReplayedIncident(
        incident=incident,
        cluster=cluster,
        job_id=job,
        job_name=job,
        cause="kind",
        severity="warning",
        began=began,
        opened_at=began,
        ended_at=ended,
        silenced=False,
        summary="",
        findings=findings,
        places={f"job_id={job}"},
    )


def pairs(old: list[ReplayedIncident], new: list[ReplayedIncident]) -> list[tuple[str, str]]:
    return sorted((a.incident, b.incident) for a, b in paired(old, new))


def test_incidents_are_paired_by_findings_then_by_time_each_once() -> None:
    old = [incident_of("o1", 0, 100, "x"), incident_of("o2", 50, 150, "y", "z")]
    new = [incident_of("n1", 60, 160, "y", "z"), incident_of("n2", 90, 160, "x"), incident_of("n3", 95, 200, "x")]
    assert pairs(old, new) == [("o1", "n2"), ("o2", "n1")]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (incident_of("n", 100, 200, "x"), True),
        (incident_of("n", 101, 200, "x"), False),
        (incident_of("n", 50, None, "y"), True),
        (incident_of("n", 50, None, "y", job="b"), False),
        (incident_of("n", 50, None, "x", job="b"), True),
        (incident_of("n", 50, None, "x", cluster="d"), False),
    ],
)
def test_the_same_is_one_cluster_and_time_and_a_finding_or_a_job(other: ReplayedIncident, same: bool) -> None:
    assert pairs([incident_of("o", 0, 100, "x")], [other]) == ([("o", "n")] if same else [])


def test_a_large_recording_is_decoded_by_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = [b for piece in pieces((HUNG,), SETTINGS) for b in piece]
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(HUNG.read_bytes() + b'{"topic": 1}\n')
    monkeypatch.setattr(events, "_OWN_PROCESS_BYTES", 0)
    assert [b for piece in pieces((HUNG,), SETTINGS) for b in piece] == here
    with pytest.raises(RecordingError, match=r"broken\.jsonl:\d+: not a recorded Kafka record"):
        list(pieces((broken,), SETTINGS))


def test_configuration_records_in_a_recording_do_not_count(tmp_path: Path) -> None:
    lines = HUNG.read_bytes().splitlines()
    first = json.loads(lines[0])
    off = {"detectors": {"checkpoint_overdue": {"enabled": False}}, "hash": "x", "at": 0, "by": "t"}
    config = {**first, "topic": "flinkwatch.config", "key": "detectors", "value": json.dumps(off)}
    file = tmp_path / "with-config.jsonl"
    file.write_bytes(b"\n".join([json.dumps(config).encode(), *lines]) + b"\n")
    assert compare([file], OLD, OLD, SETTINGS).same == 1


def test_recordings_are_streams_of_their_own_and_log_files_are_one(tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    for log in logs:
        log.write_text("2026-11-20 23:37:25,001 INFO  o.a.f.r.j.JobMaster [] - nothing\n")
    assert streams([logs[0], HUNG, logs[1]]) == [(HUNG,), tuple(logs)]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["tune", *map(str, arguments)])


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    file = tmp_path / "new.yaml"
    file.write_text("detectors: {checkpoint_overdue: {min_age: 5m}}\n")
    return file


def test_the_exit_status_is_for_ci(tmp_path: Path, lost: Path) -> None:
    same = tmp_path / "same.yaml"
    same.write_text("{detectors: {checkpoint_overdue: {min_age: 30s}}}\n")
    assert run(HUNG, "--with", same).exit_code == 0
    assert run(HUNG, "--with", lost).exit_code == 1
    assert run(HUNG, "--with", lost, "--max-lost", "1").exit_code == 0
    bad = tmp_path / "bad.yaml"
    bad.write_text("detectors: {checkpoint_overdue: {min_age: 5}}\n")
    found = run(HUNG, "--with", bad)
    assert found.exit_code == 2
    assert "bad.yaml" in found.output
    assert "5m" in found.output
    assert run(HUNG).exit_code == 2
    (tmp_path / "broken.jsonl").write_text('{"topic": 1}\n')
    assert run(tmp_path / "broken.jsonl", "--with", same).exit_code == 2


def test_a_person_is_shown_the_job_and_a_script_gets_json(lost: Path) -> None:
    shown = run(HUNG, "--with", lost).output
    assert "orders-prod / orders" in shown
    assert "1 removed" in shown
    found = json.loads(run(HUNG, "--with", lost, "--json").output)
    assert [(t["cluster"], t["cause"]) for t in found["removed"]] == [("orders-prod", "checkpoint_overdue")]
    assert found["added"] == []
    assert found["span_seconds"] > 60


def test_a_removed_incident_that_people_marked_as_none_is_not_lost() -> None:
    found = Comparison(marked=frozenset({"gone", "kept", "another"}))
    old = [incident_of("gone", 0, 10, "x", job="a"), incident_of("kept", 100, 110, "y", job="b")]
    found.add(old, [incident_of("new", 100, 110, "y", job="b")])
    assert [one.incident for one in found.removed] == ["gone"]
    assert [one.incident for one in found.marked_kept] == ["kept"]
    assert not found.exceeds()
    found.add([incident_of("lost", 0, 10, "z", job="c")], [])
    assert found.exceeds()
