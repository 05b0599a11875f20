"""Renders HTML from the templates of this folder. Every value is escaped; text from logs never becomes markup."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

_FOLDER = files("sinks.web").joinpath("templates")


@cache
def asset(name: str) -> str:
    """The text of a file of the folder `templates`, such as `style.css`."""
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """The environment of all templates. `asset(name)` puts a file in as it is."""
    made = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals["asset"] = asset
    return made


def render(template: str, **values: object) -> str:
    """The HTML of a template. Raises jinja2.UndefinedError if it uses a value that is not given."""
    return environment().get_template(template).render(**values)


@cache
def content_security_policy() -> str:
    """The policy of every page. It permits the style sheet and the script of `base.html.j2`, by hash, and no others."""
    return (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        f"style-src {_hash('style.css')}; script-src {_hash('page.js')}"
    )


def _hash(name: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode()}'"
