"""Blocks of Slack's Block Kit, and the message they make up."""

import json
from typing import Any

import msgspec

Block = dict[str, Any]

MESSAGE_LIMIT = 12_000
"""Limit for the characters of a message.

Slack refuses messages from about 13,200 (`msg_blocks_too_long`, undocumented).
"""


class Message(msgspec.Struct, frozen=True):
    """A message: Slack shows `blocks`, and `text` in notifications and where it cannot show blocks.

    Without blocks, `text` is the whole message.
    """

    text: str
    blocks: list[Block]

    def size(self) -> int:
        """Characters that count against MESSAGE_LIMIT. An emoji counts as two, since Slack does not document this."""
        written = json.dumps({"text": self.text, "blocks": self.blocks}, ensure_ascii=False)
        return len(written.encode("utf-16-le", "surrogatepass")) // 2


def section(text: str) -> Block:
    return {"type": "section", "text": mrkdwn(text)}


def mrkdwn(text: str) -> Block:
    # verbatim: Slack then does not turn parts of a log line into links and mentions.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def plain_object(text: str) -> Block:
    """Text without markup."""
    return {"type": "plain_text", "text": text, "emoji": True}
