"""What Teams checks in a message: the schema of Adaptive Cards as far as the project uses it, and the size."""

import json
from collections.abc import Iterator
from typing import Any

SIZE_LIMIT = 28 * 1024
"""Bytes as UTF-16; of all limits that are documented the smallest, that of a webhook."""

_STYLES = {"default", "emphasis", "good", "attention", "warning", "accent"}
_PROPERTIES = {
    "AdaptiveCard": {"$schema", "version", "msteams", "body", "actions"},
    "Container": {"style", "bleed", "items"},
    "RichTextBlock": {"inlines", "separator"},
    "TextRun": {"text", "weight", "size", "fontType", "isSubtle", "strikethrough"},
    "Action.OpenUrl": {"title", "url"},
}
_CHILDREN = ("body", "items", "inlines", "actions")


def too_big(activity: dict[str, Any]) -> bool:
    return len(json.dumps(activity, ensure_ascii=False).encode("utf-16-le")) > SIZE_LIMIT


def elements(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An element of a card and all within it."""
    yield found
    for key in _CHILDREN:
        for child in found.get(key, ()):
            yield from elements(child)


def card_of(activity: dict[str, Any]) -> dict[str, Any]:
    """The card of a message."""
    (attachment,) = activity["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card: dict[str, Any] = attachment["content"]
    return card


def texts(card: dict[str, Any]) -> list[str]:
    """The lines that a reader sees, each with the texts of all its runs."""
    lines = [one for one in elements(card) if one["type"] == "RichTextBlock"]
    return ["".join(run["text"] for run in one["inlines"]) for one in lines]


def card_problem(card: dict[str, Any]) -> str:
    """What Teams would not accept; empty if it would accept the card."""
    for one in elements(card):
        unknown = set(one) - {"type"} - _PROPERTIES.get(one["type"], set())
        if one["type"] not in _PROPERTIES or unknown:
            return f"{one['type']}: unknown {sorted(unknown)}"
        if one["type"] == "TextRun" and not one["text"]:
            return "a TextRun without text"
        if one.get("style", "default") not in _STYLES:
            return f"style {one['style']}"
        if one["type"] == "Action.OpenUrl" and not one["url"].startswith(("https://", "http://")):
            return f"url {one['url']}"
    if len(card.get("actions", ())) > 6:
        return "more than six actions"
    return "" if card["version"] in {"1.2", "1.3", "1.4", "1.5"} else f"version {card['version']}"
