"""Patterns of names: globs, and RE2 behind a tilde."""

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from detectors.values.name_pattern import NamePatterns, fits, namespace_of

names = st.text(max_size=20)


@given(
    st.text(st.sampled_from("ab*?.-/+(\n"), min_size=1, max_size=8), st.text(st.sampled_from("ab.-/+(\n"), max_size=8)
)
def test_a_glob_is_that_of_every_shell_but_for_brackets(pattern: str, name: str) -> None:
    assert fits(pattern, name) == fnmatch.fnmatchcase(name, pattern)


@given(names)
def test_a_name_without_wildcards_fits_itself_alone(name: str) -> None:
    plain = "".join(c for c in name if c not in "*?").removeprefix("~") or "x"
    if not plain.startswith("~"):
        assert fits(plain, plain)
        assert not fits(plain, plain + "x")


@pytest.mark.parametrize(
    ("pattern", "name", "whether"),
    [
        ("~orders-(eu|us)", "orders-eu", True),
        ("~orders-(eu|us)", "my-orders-eu", False),
        ("~orders", "orders-eu", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("*", "", True),
        ("?*", "", False),
        ("Orders", "orders", False),
    ],
)
def test_the_whole_name_must_fit(pattern: str, name: str, whether: bool) -> None:
    assert fits(pattern, name) is whether


def test_no_pattern_takes_long() -> None:
    """The classic of backtracking: seconds in Python's `re`, no time here."""
    begun = time.perf_counter()
    assert not fits("~(a+)+b", "a" * 5_000)
    assert not fits("*a" * 100 + "b", "a" * 5_000)
    assert time.perf_counter() - begun < 1


@pytest.mark.parametrize("bad", ["", "~", "~(", "~[a", "~(?<x>a)(?=b)", "x" * 301])
def test_what_is_no_pattern_is_refused(bad: str) -> None:
    with pytest.raises(ValidationError):
        NamePatterns(job=bad)


def test_the_namespace_is_what_stands_before_the_slash() -> None:
    assert (namespace_of("payments/orders"), namespace_of("orders")) == ("payments", "")
    match = NamePatterns(namespace="pay*", cluster="*/orders")
    assert [match.fits_cluster(c) for c in ("payments/orders", "payments/refunds", "orders")] == [True, False, False]
