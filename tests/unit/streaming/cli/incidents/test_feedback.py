"""`flinkwatch feedback` prints the answers that hold, and `flinkwatch tune` takes them."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sinks.contract.feedback import Feedback
from streaming.cli.main import cli

AT = 1_772_373_780_000


def answer(**changes: Any) -> Feedback:
    fields: dict[str, Any] = {"incident": "i1", "answer": "not_an_incident", "person": "ann", "user": "U0ANN", "at": AT}
    return Feedback(**fields | {"kind": "restart_loop", "cluster": "prod", "job": "orders"} | changes)


def run(monkeypatch: pytest.MonkeyPatch, answers: list[bytes], *arguments: str) -> Result:
    values = {str(number).encode(): value for number, value in enumerate(answers)}
    monkeypatch.setattr("streaming.cli.incidents.known_incidents.newest", lambda *_: values)
    return CliRunner().invoke(cli, ["feedback", *arguments], catch_exceptions=False)


def test_answers_are_printed_oldest_first_without_those_that_were_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        answer(incident="i2", answer="acknowledged", at=AT + 1000, job=""),
        answer(words="\x1b[31mb"),
        answer(incident="i3", withdrawn=True),
    ]
    done = run(monkeypatch, [one.encoded() for one in answers] + [b"{"])
    assert done.stdout.splitlines() == [
        "2026-03-01 14:03:00Z  i1  restart_loop on prod orders  not an incident by ann: \N{REPLACEMENT CHARACTER}[31mb",
        "2026-03-01 14:03:01Z  i2  restart_loop on prod  acknowledged by ann",
    ]


def test_the_kind_selects_and_nothing_found_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [answer().encoded(), answer(incident="i2", kind="job_failed").encoded()]
    assert "i2" in run(monkeypatch, answers, "--kind", "job_failed").stdout
    assert run(monkeypatch, answers, "--kind", "other").stdout == "No answers.\n"


def test_json_is_what_tune_reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, log = tmp_path / "feedback.jsonl", tmp_path / "some.log"
    file.write_text(run(monkeypatch, [answer().encoded()], "--json").stdout)
    assert file.read_bytes().strip() == answer().encoded()
    log.write_text("")
    file.write_text(file.read_text() + "nonsense\n")
    done = CliRunner().invoke(cli, ["tune", str(log), "--with", str(log), "--feedback", str(file)])
    assert done.exit_code == 2
    assert f"{file}: line 2 is not from `flinkwatch feedback --json`" in done.stderr
