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
def progress(title: str) -> Iterator[Progress]:
    """Shows a step from start to end, with the time it took."""
    started = time.monotonic()
    with _live(title) if sys.stdout.isatty() else _plain(title) as show:
        yield show
    print(f"  ✓ {title}, {time.monotonic() - started:.1f} s", flush=True)


@contextlib.contextmanager
def _plain(title: str) -> Iterator[Progress]:
    started = said = time.monotonic()
    print(f"  … {title}", flush=True)

    def show(detail: str) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= EVERY:
            said = now
            print(f"    {now - started:.0f} s: {detail[:100]}", flush=True)

    yield show


@contextlib.contextmanager
def _live(title: str) -> Iterator[Progress]:
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.markup import escape  # noqa: PLC0415
    except ImportError:
        with _plain(title) as show:
            yield show
        return
    started = time.monotonic()
    with Console().status(title) as status:
        yield lambda detail: status.update(
            f"{title} [dim]{time.monotonic() - started:.0f} s  {escape(detail[:90])}[/dim]"
        )
