"""Slack's limits on blocks, as its documentation states them; the one on the whole message was found by others."""

from typing import Any

BLOCKS_LIMIT = 50
HEADER_LIMIT = 150
SECTION_LIMIT = 3000
FIELDS_LIMIT = 10
FIELD_LIMIT = 2000
CONTEXT_LIMIT = 10
ACTIONS_LIMIT = 25
BUTTON_LIMIT = 75
VALUE_LIMIT, OPTION_VALUE_LIMIT = 2000, 150
MESSAGE_LIMIT = 13_200
"""Characters of all texts together: beyond it Slack answers `msg_blocks_too_long`, which is documented nowhere."""


def blocks_problem(blocks: Any) -> str:
    """Slack's error code for blocks it would refuse, empty when it takes them."""
    if not isinstance(blocks, list) or len(blocks) > BLOCKS_LIMIT:
        return "invalid_blocks"
    if not all(isinstance(block, dict) and _fits(block) for block in blocks):
        return "invalid_blocks"
    return "msg_blocks_too_long" if sum(map(_length, blocks)) > MESSAGE_LIMIT else ""


def _fits(block: dict[str, Any]) -> bool:
    match block.get("type"):
        case "header":
            return _text_fits(block.get("text"), HEADER_LIMIT, {"plain_text"})
        case "section":
            fields = block.get("fields", [])
            if "text" not in block and not fields:
                return False
            text_fits = "text" not in block or _text_fits(block["text"], SECTION_LIMIT)
            return text_fits and len(fields) <= FIELDS_LIMIT and all(_text_fits(one, FIELD_LIMIT) for one in fields)
        case "context":
            elements = block.get("elements", [])
            texts = [one for one in elements if one.get("type") != "image"]
            return 0 < len(elements) <= CONTEXT_LIMIT and all(_text_fits(one, SECTION_LIMIT) for one in texts)
        case "actions":
            elements = block.get("elements", [])
            return 0 < len(elements) <= ACTIONS_LIMIT and all(map(_element_fits, elements))
        case "divider" | "image":
            return True
        case _:
            return False


def _element_fits(element: Any) -> bool:
    match element:
        case {"type": "button", "action_id": str(), "text": text, "value": str(value)}:
            return _text_fits(text, BUTTON_LIMIT, {"plain_text"}) and len(value) <= VALUE_LIMIT
        case {"type": "static_select", "action_id": str(), "placeholder": words, "options": [_, *_] as options}:
            fits = all(
                _text_fits(one["text"], BUTTON_LIMIT) and 0 < len(one["value"]) <= OPTION_VALUE_LIMIT for one in options
            )
            return fits and _text_fits(words, BUTTON_LIMIT * 2, {"plain_text"})
        case _:
            return False


def _text_fits(text: Any, limit: int, types: frozenset[str] | set[str] = frozenset({"plain_text", "mrkdwn"})) -> bool:
    if not isinstance(text, dict) or text.get("type") not in types:
        return False
    if text["type"] == "plain_text" and "verbatim" in text:
        return False
    return isinstance(text.get("text"), str) and 0 < len(text["text"]) <= limit


def _length(block: dict[str, Any]) -> int:
    texts = [block.get("text"), *block.get("fields", []), *block.get("elements", [])]
    return sum(len(text.get("text", "")) for text in texts if isinstance(text, dict))
