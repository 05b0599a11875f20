"""docs/inputs.md names each metric that is read, and no other."""

import re
from pathlib import Path

from detectors.events.vocabulary.metric_names import NAMES

PAGE = Path(__file__).parents[2] / "docs" / "inputs.md"
_ROW = re.compile(r"^\| `((?:flink_\w+|container|kube)_)` \| (.+) \|$", re.MULTILINE)


def test_the_metrics_that_are_read_are_listed() -> None:
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert {scope + name for scope, names in rows for name in re.findall(r"`(\w+)`", names)} == set(NAMES)
