"""Text from logs in Markdown."""

import pytest

from sinks.contract.markdown import escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# head\n- item", r"\# head - item"),
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("[a](http://b)", r"\[a\](http://b)"),
        ("_emphasis_ in a_name", r"\_emphasis\_ in a_name"),
        ("@channel", "&#64;channel"),
    ],
)
def test_nothing_is_formatting_a_link_or_a_mention(text: str, shown: str) -> None:
    assert escaped(text, 100) == shown


def test_a_long_text_is_cut() -> None:
    assert len(escaped("x" * 1_000, 300)) <= 300
