"""Tests use what the product shows to its own modules: no name that begins with an underscore."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PRODUCT = ("detectors", "sinks", "streaming")
NO_SECRETS = {"_replace", "_asdict", "_fields", "_exit"}
"""Of named tuples, and of `os`."""
STILL = {
    "unit/k8s/test_manifests.py",
    "unit/sinks/delivery/test_delivery_crashes.py",
    "unit/sinks/delivery/test_worker.py",
    "unit/streaming/setup/test_fetch_jars.py",
}
"""Files that do so still: only ever shorter."""


def private(text: str) -> Iterator[str]:
    """Private names of the product that a file imports, and attributes that are neither its own nor its module's.

    A name that the file itself defines is no secret to it.
    """
    tree = ast.parse(text)
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "self"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PRODUCT:
            yield from (name.name for name in node.names if hidden(name.name))
        elif isinstance(node, ast.Attribute) and hidden(node.attr) and node.attr not in own | NO_SECRETS:
            yield node.attr


def hidden(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_no_other_test_uses_a_private_name_of_the_product() -> None:
    found = {str(p.relative_to(TESTS)): set(private(p.read_text())) for p in sorted(TESTS.rglob("*.py"))}
    assert {file: names for file, names in found.items() if names and file not in STILL} == {}


def test_files_that_no_longer_do_so_leave_the_list() -> None:
    assert {f for f in STILL if not (TESTS / f).exists() or not set(private((TESTS / f).read_text()))} == set()


def test_a_private_name_is_found_however_it_is_reached() -> None:
    text = "from streaming.job.read import _hidden\nfrom os import _exit\nfound = read._also\nself._own = 1\nself._own"
    assert sorted(private(text)) == ["_also", "_hidden"]
