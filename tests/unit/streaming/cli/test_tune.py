"""`flinkwatch tune` refuses input that it cannot compare."""

from pathlib import Path

from click.testing import CliRunner

from streaming.cli.main import cli


def test_logs_that_are_not_understood_are_wrong_input_and_no_agreement(tmp_path: Path) -> None:
    log, other = tmp_path / "some.log", tmp_path / "other.yaml"
    log.write_text("hello world\n")
    other.write_text("detectors: {restart_loop: {count: 9}}\n")
    done = CliRunner().invoke(cli, ["tune", str(log), "--with", str(other)])
    assert done.exit_code == 2
    assert f"{log}: 1 line, 0 in a Flink log layout; looks like text" in done.stderr


def test_a_second_configuration_is_required(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    log.write_text("")
    done = CliRunner().invoke(cli, ["tune", str(log)])
    assert (done.exit_code, "Missing option '--with'" in done.stderr) == (2, True)
