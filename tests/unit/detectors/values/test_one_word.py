"""A name survives as one word of a line, whatever it holds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.values.one_word import name_of, one_word


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=300))
def test_any_name_comes_back_and_is_one_word_of_ascii(name: str) -> None:
    word = one_word(name)
    assert re.fullmatch(r"[!-~]+", word)
    assert not re.search("[,=]", word)
    assert name_of(word) == name


@pytest.mark.parametrize(
    ("word", "name"), [("%", "%"), ("%zz;", "%zz;"), ("%d800;", "?"), ("%ffffff;", "?"), ("-", "-")]
)
def test_any_word_is_a_name(word: str, name: str) -> None:
    assert name_of(word) == name
    name.encode()


def test_of_a_long_name_the_beginning_is_kept() -> None:
    assert one_word("x" * 1_000) == "x" * 300
