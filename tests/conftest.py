"""What all tests share: a Kafka broker, started when the first asks for it, and options."""

import os
from collections.abc import Iterator
from itertools import groupby

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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several processes, each starts with its part of the files that wait for brokers and Spark.

    pytest-xdist gives each process a part of the list and moves only what was not begun, so long tests at the end would
    keep one process busy and the others idle.
    """
    left = processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1:
        return
    files = [list(tests) for _, tests in groupby(items, lambda item: item.path)]
    long = [tests for tests in files if any(_waits(test) for test in tests)]
    short = [test for tests in files if tests not in long for test in tests]
    ordered: list[pytest.Item] = []
    for number in range(processes):
        share = [test for tests in long[number::processes] for test in tests]
        size = (len(items) - len(ordered)) // left
        missing = max(size - len(share), 0)
        ordered += [*share, *short[:missing]]
        del short[:missing]
        left -= 1
    items[:] = [*ordered, *short]


def _waits(item: pytest.Item) -> bool:
    return item.get_closest_marker("e2e") is not None or "broker" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def broker() -> Iterator[object]:
    """A real broker; tests make topics of their own."""
    # Imported late: nine in ten tests need no broker.
    from tests.embedded.broker import Broker

    with Broker() as running:
        yield running
