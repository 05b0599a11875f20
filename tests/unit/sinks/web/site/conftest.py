"""A status site in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sinks.web.site.filled import FilledSite


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[FilledSite]:
    made = FilledSite(tmp_path)
    yield made
    made.store.close()
