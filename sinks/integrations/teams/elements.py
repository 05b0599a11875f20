"""Elements of an Adaptive Card, and how text from logs is made harmless in them.

Cards consist of RichTextBlocks: unlike a TextBlock or a fact, a TextRun has no Markdown, so text needs no escapes and a
log line can be copied. What Teams replaces in any text is broken: `<at>` (a mention, which would also need an entity)
and `{{DATE(…)}}`.
"""

import re
from typing import Any

from sinks.contract.one_line import shortened

Element = dict[str, Any]

_MENTION = re.compile(r"<(?=/?at\b)", re.IGNORECASE)
_FUNCTION = re.compile(r"\{(?=\{(?:DATE|TIME)\()", re.IGNORECASE)
_CARD = "application/vnd.microsoft.card.adaptive"


def harmless(text: str, limit: int) -> str:
    """`text` as one line of about `limit` characters without invisible characters, mentions and functions."""
    line = _MENTION.sub("\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", shortened(text, limit))
    return _FUNCTION.sub("{ ", line)


def words(text: str, **style: Any) -> Element:
    """Text of flinkwatch's own, which may begin or end with a blank. `style` are properties of a TextRun."""
    return {"type": "TextRun", "text": text, **style}


def run(text: str, limit: int = 400, **style: Any) -> Element:
    """Any other text."""
    return words(harmless(text, limit), **style)


def bold(text: str) -> Element:
    """Words of flinkwatch's own."""
    return words(text, weight="Bolder")


def code(text: str, limit: int) -> Element:
    """Names and log lines."""
    return run(text, limit, fontType="Monospace")


def line(*runs: Element, **properties: Any) -> Element:
    """One paragraph. `properties` are those of a RichTextBlock."""
    shown = [one for one in runs if one["text"]] or [words("\N{EN DASH}")]
    return {"type": "RichTextBlock", "inlines": shown, **properties}


def link(title: str, address: str) -> Element:
    """A button that opens an address."""
    return {"type": "Action.OpenUrl", "title": harmless(title, 60), "url": address}


def card(head: list[Element], colour: str, body: list[Element], actions: list[Element]) -> Element:
    """A card whose head has the colour of a Container style."""
    top = {"type": "Container", "style": colour, "bleed": True, "items": head}
    made: Element = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [top, *body],
    }
    return made | ({"actions": actions} if actions else {})


def card_activity(content: Element, summary: str = "") -> Element:
    """A message with a card. `summary` is shown in notifications; a workflow has none."""
    attachment = {"contentType": _CARD, "content": content}
    return {"type": "message", **({"summary": summary} if summary else {}), "attachments": [attachment]}


def text_activity(text: str) -> Element:
    """A message without a card and without markup."""
    return {"type": "message", "textFormat": "plain", "text": text}
