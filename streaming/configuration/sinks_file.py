"""The configuration file of `flinkwatch deliver`: its routes, quiet hours and mentions apply whenever it changes.

Each deliverer reads its own file, as each Alertmanager of a cluster does: a deliverer may have other receivers than the
job's file names. `flinkwatch_routing_info` shows whether all deliverers have the same routes.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from sinks.secret import SecretError
from sinks.settings import Sinks
from streaming.configuration.restart_only import warn_ignored
from streaming.configuration.settings import SECTIONS, Settings, validate
from streaming.configuration.yaml_document import parse_document
from streaming.errors import ConfigError

Prepare = Callable[[Sinks], Callable[[], None]]
"""Checks changed sinks and returns what puts them in force. Raises ValueError or SecretError."""

# The other sections are of the job alone.
_USED = ("kafka", "sinks")


class SinksFile:
    """`running` are the settings with which the process started."""

    def __init__(
        self, path: Path, running: Settings, prepare: Prepare, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.path = path
        self._running = running
        self._prepare = prepare
        self._environment = environment

    def reload(self, content: bytes) -> None:
        """Put the live settings of the new content in force. Raises ConfigError; then nothing has changed."""
        settings = validate(parse_document(str(self.path), content, SECTIONS), self._environment)
        prepared(self._prepare, settings.sinks, self.path)()
        warn_ignored(self.path, self._running, settings, _USED)


def prepared(prepare: Prepare, sinks: Sinks, path: Path) -> Callable[[], None]:
    """What puts changed sinks in force. Raises ConfigError if these routes need a restart."""
    try:
        return prepare(sinks)
    except (ValueError, SecretError) as error:
        hint = "a sink that the file enables now can be named after a restart"
        raise ConfigError(f"{path}: sinks.{error}; {hint}") from None
