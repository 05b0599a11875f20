"""Shows how a long step gets on: plain lines until rich is installed, then a live line.

Runs before anything is installed: standard library only, and rich once it is there.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

Progress = Callable[[str], None]
"""Tells what a step does at the moment."""

EVERY = 15.0
"""Seconds between two plain lines: enough to see that it is alive."""


@contextlib.contextmanager
def progress(title: str, note: str = "") -> Iterator[Progress]:
    """Shows a step from start to end, with the time it took; the note is for those who begin to wait."""
    started = time.monotonic()
    with _live(title, note) if sys.stdout.isatty() else _plain(title, note) as show:
        yield show
    print(f"  ✓ {title}, {time.monotonic() - started:.1f} s", flush=True)


@contextlib.contextmanager
def _plain(title: str, note: str) -> Iterator[Progress]:
    started = said = time.monotonic()
    print(f"  … {title}{note and f' ({note})'}", flush=True)

    def show(detail: str) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= EVERY:
            said = now
            print(f"    {now - started:.0f} s: {detail[:100]}", flush=True)

    yield show


@contextlib.contextmanager
def _live(title: str, note: str) -> Iterator[Progress]:
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.markup import escape  # noqa: PLC0415
    except ImportError:
        with _plain(title, note) as show:
            yield show
        return
    started = time.monotonic()
    console = Console()
    room = max(0, console.width - len(title) - 12)
    with console.status(title) as status:

        def show(detail: str) -> None:
            status.update(f"{title} [dim]{time.monotonic() - started:.0f} s  {escape(detail[:room])}[/dim]")

        show(note)
        yield show
