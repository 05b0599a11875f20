"""Blocks of Slack's Block Kit, and the message they make up."""

import json
from typing import Any

import msgspec

Block = dict[str, Any]

MESSAGE_LIMIT = 12_000
"""Characters of a whole message: Slack refuses near 13,200 (`msg_blocks_too_long`), undocumented."""


class Message(msgspec.Struct, frozen=True):
    """What Slack shows: `blocks`, and `text` in notifications and where blocks are not shown.

    Without blocks `text` is the whole message.
    """

    text: str
    blocks: list[Block]

    def size(self) -> int:
        """Characters that count against MESSAGE_LIMIT, an emoji as two: nobody says how Slack counts them."""
        written = json.dumps({"text": self.text, "blocks": self.blocks}, ensure_ascii=False)
        return len(written.encode("utf-16-le", "surrogatepass")) // 2


def section(text: str) -> Block:
    """A section of mrkdwn."""
    return {"type": "section", "text": mrkdwn(text)}


def mrkdwn(text: str) -> Block:
    """Text in Slack's markup."""
    # verbatim: Slack makes no links and mentions of its own out of what a log line says.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def plain_object(text: str) -> Block:
    """Text without markup."""
    return {"type": "plain_text", "text": text, "emoji": True}
