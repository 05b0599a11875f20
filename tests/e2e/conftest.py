"""The real thing: a Kafka broker, and `flinkwatch run` as a process of its own, on topics of its own for each test."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Installation
from tests.embedded.broker import Broker

_numbers = itertools.count(1)


@pytest.fixture
def installation(broker: Broker, tmp_path: Path) -> Iterator[Callable[..., Installation]]:
    """Makes installations that share the broker and nothing else; their jobs end with the test."""
    made: list[Installation] = []

    def make(**streaming: object) -> Installation:
        number = next(_numbers)
        folder = tmp_path / f"installation-{number}"
        folder.mkdir()
        made.append(Installation(broker.bootstrap, folder, f"fw{number}", streaming))
        return made[-1]

    yield make
    for one in made:
        one.job.kill()
