"""The tables of `flinkwatch tune` on a narrow terminal."""

import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from detectors import DETECTORS
from streaming.cli.main import cli
from streaming.tuning.report import _table


def test_logs_that_are_not_understood_are_wrong_input_and_no_agreement(tmp_path: Path) -> None:
    log, other = tmp_path / "some.log", tmp_path / "other.yaml"
    log.write_text("hello world\n")
    other.write_text("detectors: {restart_loop: {count: 9}}\n")
    done = CliRunner().invoke(cli, ["tune", str(log), "--with", str(other)])
    assert done.exit_code == 2
    assert f"{log}: 1 line, 0 in a Flink log layout; looks like text" in done.stderr


@pytest.mark.parametrize("width", [80, 100])
def test_the_name_of_a_threshold_is_never_broken(width: int) -> None:
    longest = max((f"{d.kind}.{name}" for d in DETECTORS for name in d.Config.model_fields), key=len)
    table = _table("threshold", "now", "silent from", "found until", "suggested", "headroom")
    table.add_row(longest, "30s", "cannot be told", "149.0", "no value does both", "×1.27 / ×1.28")
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table)
    assert longest in out.getvalue()
