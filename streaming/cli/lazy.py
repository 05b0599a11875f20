"""A group of commands whose modules are loaded when they are asked for: most of a start is imports of the others.

Ctrl-C ends any of them without a word, with the exit status that a shell gives it.
"""

from collections.abc import Mapping
from importlib import import_module
from signal import SIGINT, default_int_handler, signal
from typing import Any

import click

_INTERRUPTED = 130


class LazyGroup(click.Group):
    """`later` maps a command's name to `module:attribute`."""

    def __init__(self, *arguments: Any, later: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._later = dict(later or {})

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command: what it has begun is put in order."""
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
        command: click.Command = getattr(import_module(module), attribute)
        return command
