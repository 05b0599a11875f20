"""Golden files of the sinks: `pytest tests/unit/sinks --regenerate` writes them anew; review them as a diff."""

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Holds a text against the golden file of that name."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--regenerate"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), f"{name} differs; if meant, run with --regenerate"

    return check
