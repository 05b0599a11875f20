"""What all tests share: a Kafka broker, started when the first test asks for it, and the option for golden files."""

from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write golden files anew; review them as a diff")


@pytest.fixture(scope="session")
def broker() -> Iterator[object]:
    """A real broker; tests make topics of their own."""
    # Imported late: nine in ten tests need no broker.
    from streaming.embedded.broker import Broker

    with Broker() as running:
        yield running
