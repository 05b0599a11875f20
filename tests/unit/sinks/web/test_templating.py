"""HTML from templates: escaped values, and a policy that permits only what the page itself holds."""

import base64
import hashlib
import re

import pytest
from jinja2 import UndefinedError

from sinks.web import templating

POLICY = templating.content_security_policy()


def html() -> str:
    return templating.render("base.html.j2")


def test_a_value_never_becomes_markup() -> None:
    assert "<b>" not in templating.environment().from_string("{{ value }}").render(value="<b>")


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        templating.environment().from_string("{{ value }}").render()


@pytest.mark.parametrize("tag", ["style", "script"])
def test_the_policy_permits_the_style_and_the_script_of_the_page_by_their_hashes(tag: str) -> None:
    inline = re.findall(rf"<{tag}>(.*?)</{tag}>", html(), re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline]
    assert [f"{tag}-src 'sha256-{one}'" in POLICY for one in hashes] == [True]


def test_the_page_asks_no_other_host() -> None:
    assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//", html())
