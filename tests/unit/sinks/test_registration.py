"""A receiver is complete: one run names every piece that is missing, with the file it belongs into."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from sinks import integrations
from sinks.contract.sink import Sink
from sinks.receivers import make_receivers
from sinks.settings import Sinks

PROJECT = Path(__file__).parents[3]
TESTS = PROJECT / "tests" / "unit" / "sinks" / "integrations"


def sink_classes() -> dict[str, tuple[type[Sink], ...]]:
    """The classes of each receiver by its module's name, or its folder's."""
    modules = [m.name for m in pkgutil.walk_packages(integrations.__path__, f"{integrations.__name__}.")]
    found: dict[str, tuple[type[Sink], ...]] = {}
    for name in modules:
        for one in vars(importlib.import_module(name)).values():
            if inspect.isclass(one) and issubclass(one, Sink) and one.__module__ == name:
                found[name.split(".")[2]] = (*found.get(name.split(".")[2], ()), one)
    return found


SINKS = sink_classes()


def missing(name: str, *classes: type[Sink]) -> Iterator[str]:
    """What a receiver lacks."""
    field = Sinks.model_fields.get(name)
    section = field.annotation if field is not None else None
    if not (inspect.isclass(section) and issubclass(section, BaseModel) and "enabled" in section.model_fields):
        yield f"sinks/settings.py: no section `{name}` with `enabled`"
    else:
        only_this = Sinks.model_construct(**{name: section.model_construct(enabled=True)})
        if only_this.enabled() != (name,):
            yield f"sinks/settings.py: not in `enabled`, so nothing is ever sent to `{name}`"
        elif not isinstance(make_receivers(only_this)[0].sink, classes):
            yield f"sinks/receivers.py: no case for `{name}`, so another sink gets its notifications"
        secret = any(key.endswith("_env") for key in section.model_fields)
        if secret and f'"{name}": {{"enabled": True' not in (PROJECT / "tests/e2e/test_secrets.py").read_text():
            yield f"tests/e2e/test_secrets.py: `{name}` has a secret and is not among the sinks of `configured`"
    for page, place in (("docs/delivery.md", f"\n## {name}\n"), ("README.md", name)):
        if place not in (PROJECT / page).read_text().lower():
            yield f"{page}: does not have `{place.strip()}`"
    tests = [file.read_text() for file in TESTS.rglob("test_*.py")]
    for sink in classes:
        if not any(sink.__name__ in text for text in tests):
            yield f"tests/unit/sinks/integrations/test_{name}.py: no test of {sink.__name__}"


@pytest.mark.parametrize("name", SINKS)
def test_no_receiver_lacks_a_piece(name: str) -> None:
    found = list(missing(name, *SINKS[name]))
    assert not found, "\n" + "\n".join(found)


def test_a_receiver_that_is_only_a_class_lacks_every_piece() -> None:
    assert [piece.partition(":")[0] for piece in missing("nothing_yet", type("NothingYetSink", (Sink,), {}))] == [
        "sinks/settings.py",
        "docs/delivery.md",
        "README.md",
        "tests/unit/sinks/integrations/test_nothing_yet.py",
    ]


def test_a_section_that_is_enabled_in_vain_is_named() -> None:
    """`prometheus` is a section with `enabled` and no receiver."""
    assert next(missing("prometheus", type("NothingYetSink", (Sink,), {}))).startswith(
        "sinks/settings.py: not in `enabled`"
    )


def test_a_receiver_whose_notifications_another_sink_gets_is_named() -> None:
    assert next(missing("webhook", *SINKS["pagerduty"])).startswith("sinks/receivers.py: no case for `webhook`")
