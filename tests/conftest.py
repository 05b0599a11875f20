"""What all tests share: a Kafka broker, started when the first asks for it, and options."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# The same examples at every run, so that a red run is about the change at hand; `bin/test --all` looks for new ones.
# No limits of time: on a busy host everything is slow.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("new"), derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write golden files anew; review them as a diff")
    parser.addoption("--new-examples", action="store_true", help="let hypothesis look for examples it has not tried")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("new" if config.getoption("--new-examples") else "same")


@pytest.fixture(scope="session")
def broker() -> Iterator[object]:
    """A real broker; tests make topics of their own."""
    # Imported late: nine in ten tests need no broker.
    from tests.embedded.broker import Broker

    with Broker() as running:
        yield running
