"""A group of commands that imports a command's module only when the command runs, because imports are slow.

Ctrl-C ends any command without a message, with exit status 130 as in a shell.
"""

from collections.abc import Mapping
from importlib import import_module
from signal import SIG_DFL, SIGINT, default_int_handler, signal
from typing import Any

import click

_INTERRUPTED = 130


class LazyGroup(click.Group):
    """A click group. `later` maps the name of a command to `module:attribute`."""

    def __init__(self, *arguments: Any, later: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._later = dict(later or {})

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C unwinds it, so that it cleans up."""
        before = signal(SIGINT, default_int_handler)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)
        finally:
            signal(SIGINT, before)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._later})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is not None or cmd_name not in self._later:
            return found
        module, _, attribute = self._later[cmd_name].partition(":")
        # An import cannot be interrupted in order, so Ctrl-C ends the process at once meanwhile.
        before = signal(SIGINT, SIG_DFL)
        try:
            command: click.Command = getattr(import_module(module), attribute)
        finally:
            signal(SIGINT, before)
        return command
