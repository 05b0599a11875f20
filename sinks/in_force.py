"""The settings of receivers that are in force: those of the start, with the routes and mentions of the newest file.

Receivers ask for them whenever they decide. They are replaced as a whole, so no decision mixes two files.
"""

import hashlib

import msgspec

from sinks.settings import Sinks


class SinksInForce:
    """Safe to use from several threads."""

    def __init__(self, sinks: Sinks) -> None:
        self.now = sinks
        self.version = 0
        """How often the settings have changed since the start."""

    def replace(self, sinks: Sinks) -> None:
        """Put other settings in force; `Sinks.reloaded` makes them."""
        if sinks != self.now:
            self.now = sinks
            self.version += 1

    def hash(self) -> str:
        """Eight hex digits that differ if the routes, quiet hours or mentions differ."""
        sinks = self.now
        body = sinks.routing.model_dump(mode="json"), sinks.enabled(), sinks.slack.actions.mention
        return hashlib.sha256(msgspec.json.encode(body)).hexdigest()[:8]
