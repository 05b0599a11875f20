"""What is written to a terminal: text out of logs and topics must not command it.

A line of a log may hold escape sequences that clear the screen, set the title or hide what follows. Commands print
through this module alone, which the linter holds them to.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

# Control characters but for line feed and tab, what reverses the direction of writing, and halves of characters.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# JSON escapes the others by itself.
_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` with a replacement character for each that a terminal would obey instead of showing it."""
    return _COMMANDS.sub("\ufffd", text)


def echo(text: str, *, newline: bool = True, error: bool = False) -> None:
    """Print to standard output, or to standard error."""
    click.echo(printable(text), nl=newline, err=error)


def echo_json(document: bytes) -> None:
    """Print a JSON document as a line. It means the same afterwards: what a terminal would obey is escaped."""
    text = _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document.decode())
    sys.stdout.buffer.write(text.encode() + b"\n")


class Console(RichConsole):
    """rich's, whose styles are its own and none that a text brings along."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


@contextmanager
def status(title: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what a command does; the function that is yielded shows how far it is."""
    with Console(stderr=True).status(title) as shown:
        yield lambda detail: shown.update(f"{title}: {detail}")


def printable_fields(_logger: Any, _method: str, event: Any) -> Any:
    """A processor of structlog: no field of a log line commands the terminal."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}
