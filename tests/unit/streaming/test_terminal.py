"""Text out of logs and topics never commands the terminal, whichever way it is printed."""

import io
import json
import logging
import sys
import unicodedata
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import click
import msgspec
import pytest
import structlog
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from detectors.incident import Evidence, Transition
from sinks.secret import Secret
from streaming.cli import replay_report
from streaming.cli.replay_report import NO_REPORT_LINKS
from streaming.logs import configure_logs
from streaming.terminal import Console, echo, echo_json, printable
from tests.demo.terminal_message import as_terminal
from tests.unit.sinks.samples import adjustment, make_transition

# Escape sequences that clear, retitle, hide and paste; C1 in one character; text that runs backwards.
ATTACKS = ["\x1b[2J", "\x1b]0;pwned\x07", "\x9b8m", "\x1b[8mhidden", "\x08\x08\x08", "\r", "\u202eecnesba", "\x7f"]
hostile = st.one_of(
    st.text(),
    st.lists(st.one_of(st.sampled_from(ATTACKS), st.text()), max_size=6).map("".join),
)


def commands(text: str) -> list[str]:
    """The characters of `text` that a terminal obeys or that hide what stands there."""
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    controls = [c for c in text if unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t"]
    return controls + [c for c in text if unicodedata.bidirectional(c) in turning]


@given(hostile)
def test_what_is_printable_commands_nothing_and_keeps_every_other_character(text: str) -> None:
    shown = printable(text)
    assert commands(shown) == []
    assert len(shown) == len(text)
    assert all(a == b or b == "\ufffd" for a, b in zip(text, shown, strict=True))


def hostile_transition(text: str) -> Transition:
    return make_transition(
        cluster=text,
        job_name=text,
        summary=text,
        evidence=[Evidence(topic=text, partition=0, offset=1, time=1, text=text)],
        adjustments=[adjustment(text, text)],
    )


def test_a_replay_reports_what_was_changed_in_flink_and_what_became_of_it() -> None:
    found = make_transition(adjustments=[adjustment(effect="9 of 9 completed")])
    words = "execution.checkpointing.timeout 10 min → 20 min at 2026-03-01 14:13:00Z: 9 of 9 completed"
    assert ("changed", words) in list(replay_report.rows(found))
    assert "changed" not in dict(replay_report.rows(make_transition()))


def printed(render: Callable[[Console], None]) -> str:
    """What a terminal would be sent, without rich's own styles."""
    out = io.StringIO()
    render(Console(file=out, color_system=None, width=200))
    return out.getvalue()


@given(hostile)
def test_a_replay_commands_nothing(text: str) -> None:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        scribe = replay_report.IncidentLog()
        scribe.take(hostile_transition(text))
        replay_report.print_incidents(scribe.incidents(), replay_report.UTC_CLOCK, (), lambda _: NO_REPORT_LINKS)
        replay_report.print_timeline(scribe.timeline, replay_report.UTC_CLOCK)
    assert commands(out.getvalue()) == []


@given(hostile)
def test_a_message_in_the_demo_commands_nothing(text: str) -> None:
    blocks = [
        {"type": "header", "text": {"text": text}},
        {"type": "section", "text": {"text": text}},
        {"type": "context", "elements": [{"text": text}]},
        {"type": "rich_text", "elements": [{"elements": [{"text": text}]}]},
    ]
    table = Table.grid()
    table.add_row(Text(text))
    printed_text = printed(lambda console: console.print(Panel(as_terminal({"blocks": blocks})), table))
    assert commands(printed_text) == []


def test_styles_of_its_own_stay() -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="standard").print(Text("\x1b[8mhidden", style="bold"))
    assert out.getvalue() == "\x1b[1m\ufffd[8mhidden\x1b[0m\n"


@given(hostile)
def test_json_on_a_terminal_commands_nothing_and_means_the_same(text: str) -> None:
    text = text.encode(errors="replace").decode()
    done = CliRunner().invoke(click.Command("x", callback=lambda: echo_json(msgspec.json.encode({text: text}))))
    assert commands(done.stdout) == []
    assert json.loads(done.stdout) == {text: text}


@given(hostile)
def test_yaml_with_names_out_of_logs_reads_back_as_it_was(text: str) -> None:
    text = text.encode(errors="replace").decode()
    document = {"overrides": [{"match": {"job": text}}]}
    dumped = yaml.safe_dump(document)
    assert commands(dumped) == []
    assert yaml.safe_load(dumped) == document


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_log_line_commands_nothing(attack: str, log_format: str) -> None:
    printed_text = logged(log_format, lambda log: log.warning("input", line=attack))
    assert commands(printed_text) == []


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_traceback_shows_no_local_variable_and_commands_nothing(log_format: str) -> None:
    def fail(log: Any) -> None:
        password = Secret("canary-local")
        options = {"sasl.jaas.config": f"password={password}"}
        try:
            int(f"\x1b[2J{len(options)}")
        except ValueError:
            log.exception("delivery failed")

    printed_text = logged(log_format, fail)
    assert "ValueError" in printed_text
    assert "canary-local" not in printed_text
    assert commands(printed_text) == []


def logged(log_format: str, say: Callable[[Any], None]) -> str:
    """What goes to standard error, without the styles of the log itself."""
    out = io.StringIO()
    before = logging.getLogger().handlers[:], logging.getLogger().level
    with redirect_stderr(out):
        configure_logs(log_format)
        try:
            say(structlog.get_logger())
        finally:
            structlog.reset_defaults()
            logging.getLogger().handlers[:], level = before[0], before[1]
            logging.getLogger().setLevel(level)
    return click.unstyle(out.getvalue())


def test_echo_goes_through_the_same_filter(capsys: pytest.CaptureFixture[str]) -> None:
    echo("\x1b[2Jjob\ta")
    echo("\x9b2J", error=True, newline=False)
    printed_text = capsys.readouterr()
    assert printed_text.out == "\ufffd[2Jjob\ta\n"
    assert printed_text.err == "\ufffd2J"
