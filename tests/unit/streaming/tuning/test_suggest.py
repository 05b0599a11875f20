"""Thresholds are suggested from history, and proved by a replay under them."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from detectors.incident import Transition
from detectors.settings.live import LiveSettings, publish
from streaming.cli.main import cli
from streaming.configuration.settings import Settings
from streaming.recordings.replay import load, replay
from streaming.tuning.suggest import Suggestions, suggest
from streaming.tuning.threshold import TUNABLE, Threshold, thresholds
from tests.recorded import READER, SCENARIOS

# A checkpoint that hangs for 150 s, and one that does for 90 s, of the same job.
LONG, SHORT = (
    SCENARIOS / n / "input.jsonl.gz" for n in ("checkpoint-hung-then-done", "checkpoint-hung-then-cancelled")
)
STEADY = SCENARIOS / "healthy-steady" / "input.jsonl.gz"
LIMIT = Threshold("checkpoint_overdue", "min_age")


def suggested(files: list[Path], healthy: list[Path]) -> Suggestions:
    return suggest(files, healthy, Settings(), ["checkpoint_overdue"])


def said(file: Path, live: LiveSettings) -> list[Transition]:
    return list(replay(load([file], "flink.logs", "flink.metrics"), READER, publish(live, 0, "tests")))


def test_the_suggestion_is_silent_on_healthy_history_and_finds_the_incident() -> None:
    made = suggested([LONG], [SHORT])
    assert said(SHORT, LiveSettings())
    tuned = LiveSettings(overrides=tuple(made.overrides))
    assert said(SHORT, tuned) == []
    assert [t.cause for t in said(LONG, tuned) if t.transition == "opened"] == ["checkpoint_overdue"]
    assert (made.alarms, made.found, made.incidents) == (0, 1, 1)


def test_limits_and_margins_are_those_of_the_records() -> None:
    row = next(r for r in suggested([LONG], [SHORT]).suggestions if r.setting == "min_age")
    silent, found, between = (LIMIT.number(v) for v in (row.silent_from, row.found_until, row.suggested) if v)
    # The hang of 90 s may be open up to the second in which it ends.
    assert 87_000 <= silent <= 95_000
    assert 143_000 <= found <= 150_000
    assert silent < between < found
    assert row.margin_healthy == pytest.approx(between / silent, abs=0.01)
    assert row.margin_incidents == pytest.approx(found / between, abs=0.01)
    assert (row.cluster, row.job, row.current, row.alarms, row.incidents) == ("orders-prod", "orders", "30s", 1, 1)


def test_just_beyond_the_limits_it_is_no_longer_so() -> None:
    row = next(r for r in suggested([LONG], [SHORT]).suggestions if r.setting == "min_age")
    assert row.silent_from is not None
    assert row.found_until is not None
    silent, found = LIMIT.number(row.silent_from), LIMIT.number(row.found_until)
    for file, value, open_ones in (
        (SHORT, silent, 0),
        (SHORT, silent / 1.06, 1),
        (LONG, found, 1),
        (LONG, found * 1.06, 0),
    ):
        live = LiveSettings.model_validate({"detectors": {LIMIT.kind: {LIMIT.setting: LIMIT.written(value)}}})
        assert sum(t.transition == "opened" for t in said(file, live)) == open_ones, (file, value)


def test_where_no_value_does_both_none_is_suggested() -> None:
    made = suggested([SHORT], [LONG])
    assert {(r.suggested, r.note) for r in made.suggestions} == {(None, "no value does both")}
    assert made.overrides == []
    assert made.alarms == 1


def test_a_threshold_without_limits_is_unknown_and_stays() -> None:
    made = suggested([LONG], [STEADY])
    assert {(r.silent_from, r.margin_healthy, r.suggested == r.current) for r in made.suggestions} == {
        (None, None, True)
    }
    assert made.overrides == []
    alarm = suggested([], [SHORT])
    assert {(r.found_until, r.margin_incidents, r.margin_healthy) for r in alarm.suggestions} <= {
        (None, None, m) for m in (1.24, 1.25, 1.26)
    }
    assert said(SHORT, LiveSettings(overrides=tuple(alarm.overrides))) == []


def test_an_override_in_force_is_the_present_value() -> None:
    override = {"cluster": "orders-*", "job": "orders", "detectors": {LIMIT.kind: {"min_age": "2m"}}}
    settings = Settings.model_validate({"overrides": [override]})
    rows = suggest([LONG], [SHORT], settings, [LIMIT.kind]).suggestions
    assert {r.current for r in rows if r.setting == "min_age"} == {"2m"}
    assert {r.alarms for r in rows} == {0}


@pytest.mark.parametrize("threshold", [t for kind in TUNABLE for t in thresholds(kind)], ids=".".join)
def test_every_value_tried_is_one_that_may_be_written(threshold: Threshold) -> None:
    current = LiveSettings().detectors.model_dump(mode="json")[threshold.kind][threshold.setting]
    start = threshold.number(current)
    for calmer in (True, False):
        values = list(threshold.ladder(start, calmer=calmer))
        assert values == sorted(values, reverse=threshold.calmer_when_higher != calmer)
        for value in values:
            LiveSettings.model_validate({"detectors": {threshold.kind: {threshold.setting: threshold.written(value)}}})


def test_what_is_printed_can_be_pasted(tmp_path: Path) -> None:
    arguments = ["tune", "--suggest", str(LONG), "--healthy", str(SHORT), "--kind", "checkpoint_overdue"]
    printed = CliRunner().invoke(cli, arguments)
    assert printed.exit_code == 0
    pasted = tmp_path / "pasted.yaml"
    pasted.write_text(printed.output[printed.output.index("\noverrides:") :])
    assert yaml.safe_load(pasted.read_text())["overrides"][0]["job"] == "orders"
    assert CliRunner().invoke(cli, ["tune", str(SHORT), "--with", str(pasted), "--max-lost", "0"]).exit_code == 1
    assert CliRunner().invoke(cli, ["tune", str(LONG), "--with", str(pasted)]).exit_code == 0
    found = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).output)
    assert found["overrides"] == yaml.safe_load(pasted.read_text())["overrides"]
    assert found["replayed"] == {"alarms": 0, "found": 1, "incidents": 1}


def test_a_kind_without_a_threshold_is_refused() -> None:
    done = CliRunner().invoke(cli, ["tune", "--suggest", str(LONG), "--kind", "job_failed"])
    assert done.exit_code == 2
    assert "job_failed: has no threshold to tune; allowed: backpressure" in done.output
