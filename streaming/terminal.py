"""Output to a terminal, with escape sequences from logs and topics made harmless.

A log line may contain escape sequences that clear the screen, set the title or hide text. All commands print through
this module, which a lint rule enforces.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import click
from rich import box
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

# Control characters except line feed and tab, characters that change the writing direction, and lone surrogates.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# JSON itself escapes the others.
_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_WIDE = 200


def printable(text: str) -> str:
    """`text` with a replacement character for each control character."""
    return _COMMANDS.sub("\ufffd", text)


def echo(text: str, *, newline: bool = True, error: bool = False) -> None:
    click.echo(printable(text), nl=newline, err=error)


def echo_json(document: bytes) -> None:
    """Print a JSON document as one line. Control characters are escaped, which does not change its meaning."""
    text = _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document.decode())
    sys.stdout.buffer.write(text.encode() + b"\n")


class Console(RichConsole):
    """rich's console; escape sequences in texts are replaced."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def clear_screen() -> None:
    """Clear the terminal; what is printed to a pipe or a file stays."""
    click.clear()


def print_table(rows: Iterable[Sequence[str | Text]], *titles: str) -> None:
    """Print a table without frames. Long cells are wrapped."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    # A pipe has no width to wrap lines at.
    Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE).print(table)


def print_fields(title: Text, rows: Sequence[tuple[str, str]]) -> None:
    """Print a title and labelled lines under it. A label that repeats is printed once."""
    console = Console(highlight=False)
    console.print(title, soft_wrap=True)
    shown = [(label if i == 0 or rows[i - 1][0] != label else "", text) for i, (label, text) in enumerate(rows)]
    if console.is_terminal:
        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_column(style="dim", no_wrap=True, min_width=13)
        table.add_column(overflow="fold")
        for label, text in shown:
            table.add_row(Text(f"  {label}"), Text(text))
        console.print(table)
    else:
        for label, text in shown:
            console.print(Text(f"  {label:12}{text}".replace("\n", " ")), soft_wrap=True)
    console.print()


@contextmanager
def status(title: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what a command does; the function that is yielded shows how far it is."""
    with Console(stderr=True).status(title) as shown:
        yield lambda detail: shown.update(f"{title}: {detail}")


@contextmanager
def progress(title: str) -> Iterator[Callable[[float, str], None]]:
    """Show a bar on a terminal; the function that is yielded takes the share that is done and a detail."""
    columns = BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False)
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(title, total=1.0)
        yield lambda share, detail: shown.update(task, completed=share, description=f"{title}: {detail}")


class Clock:
    """Formats times in one zone and appends its name. `zone` is in ms east of UTC."""

    def __init__(self, zone: int = 0) -> None:
        self._zone = UTC if not zone else timezone(timedelta(milliseconds=zone))
        self.name = "UTC" if not zone else datetime.fromtimestamp(0, self._zone).isoformat()[-6:]
        self._mark = "Z" if not zone else f" {self.name}"

    def time(self, ms: int) -> str:
        try:
            return datetime.fromtimestamp(ms / 1000, self._zone).strftime("%Y-%m-%d %H:%M:%S") + self._mark
        except (OverflowError, ValueError, OSError):
            return f"{ms} ms"


UTC_CLOCK = Clock()


def printable_fields(_logger: Any, _method: str, event: Any) -> Any:
    """A structlog processor that replaces control characters in fields."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}
