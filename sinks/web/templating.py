"""Renders HTML from the templates of this folder. Every value is cleaned and escaped; text from logs never becomes
markup.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from sinks.contract.one_line import shortened
from sinks.contract.wording import kind_words, moment

_FOLDER = files("sinks.web").joinpath("templates")
_LONGEST = 2_000
# Of a <meta> element, browsers ignore `frame-ancestors` and complain about it.
_OF_HEADERS = "frame-ancestors 'none'; "


@cache
def asset(name: str) -> str:
    """The text of a file of the folder `templates`, such as `style.css`."""
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """The environment of all templates. `asset(name)` puts a file in as it is; `name | cut(80)` shortens a text."""
    made = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    made.globals |= {"asset": asset, "meta_policy": content_security_policy().replace(_OF_HEADERS, "")}
    made.filters |= {"cut": shortened, "moment": moment, "kind_words": kind_words}
    return made


def render(template: str, **values: object) -> str:
    """The HTML of a template. Raises jinja2.UndefinedError if it uses a value that is not given."""
    return environment().get_template(template).render(**values)


@cache
def content_security_policy() -> str:
    """The policy of every page, for a header: it permits the style and the script of `base.html.j2` by their hashes."""
    return (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'self'; {_OF_HEADERS}"
        f"style-src {_hash('style.css')}; script-src {_hash('page.js')}"
    )


def _cleaned(value: object) -> object:
    """Each printed text without invisible characters, and not endless. Markup is a class of its own and is kept."""
    return shortened(value, _LONGEST) if type(value) is str else value


def _hash(name: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode()}'"
