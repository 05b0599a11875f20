"""The unit of systemd: it is valid, and runs flinkwatch with few rights."""

import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "conf" / "systemd" / "flinkwatch.service"

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def test_it_has_few_rights() -> None:
    """At most 4 of 10 points of exposure."""
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=40", UNIT]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout[-300:] + result.stderr


def test_systemd_understands_each_line(tmp_path: Path) -> None:
    there = tmp_path / UNIT.name
    there.write_text(UNIT.read_text().replace("/opt/flinkwatch/.venv/bin/flinkwatch", "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", there]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
