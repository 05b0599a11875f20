"""The data of the fake Slack: calls, messages, files, and planned faults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BOT_USER = "U0FLINKWATCH"
TEAM = "T0LOCAL"

Body = dict[str, Any]


@dataclass
class Posted:
    """A message in a channel."""

    channel: str
    ts: str
    text: str = ""
    blocks: list[Any] = field(default_factory=list)
    thread_ts: str | None = None
    metadata: Any = None
    edited_ts: str | None = None
    broadcast: bool = False
    files: list[str] = field(default_factory=list)

    def as_slack(self, with_metadata: bool) -> Body:
        """The message as Slack's API gives it back."""
        message: Body = {"type": "message", "user": BOT_USER, "bot_id": "B0FLINKWATCH", "ts": self.ts}
        message |= {"text": self.text, "blocks": self.blocks}
        if self.thread_ts is not None:
            message["thread_ts"] = self.thread_ts
        if self.broadcast:
            message["subtype"] = "thread_broadcast"
        if self.files:
            message["files"] = [{"id": name} for name in self.files]
        if self.edited_ts is not None:
            message["edited"] = {"user": BOT_USER, "ts": self.edited_ts}
        if with_metadata and self.metadata is not None:
            message["metadata"] = self.metadata
        return message


@dataclass
class Upload:
    """A file: announced with its name and length, then sent, then shared."""

    name: str
    length: int
    alt: str = ""
    content: bytes | None = None
    title: str = ""


@dataclass(frozen=True)
class Call:
    """One request as it came in; `at` is wall-clock time in seconds."""

    method: str
    at: float
    body: Body


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a call; see `SlackServer.fail_next`."""

    status: int | None
    headers: Mapping[str, str]
    error: str
    silent_s: float = 0.0
    reset: bool = False
    accept: bool = False


def buttons(blocks: list[Any]) -> list[Body]:
    """The buttons and menus of a message."""
    return [element for block in blocks if block.get("type") == "actions" for element in block["elements"]]
