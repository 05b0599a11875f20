"""The tables of `flinkwatch tune` on a narrow terminal."""

import io

import pytest
from rich.console import Console

from detectors import DETECTORS
from streaming.tuning.report import _table


@pytest.mark.parametrize("width", [80, 100])
def test_the_name_of_a_threshold_is_never_broken(width: int) -> None:
    longest = max((f"{d.kind}.{name}" for d in DETECTORS for name in d.Config.model_fields), key=len)
    table = _table("threshold", "now", "silent from", "found until", "suggested", "headroom")
    table.add_row(longest, "30s", "cannot be told", "149.0", "no value does both", "×1.27 / ×1.28")
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table)
    assert longest in out.getvalue()
