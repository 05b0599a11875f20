"""A Slack message as a terminal shows it."""

import html
import re
from collections.abc import Callable
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_STYLED = re.compile(r"\*(?P<bold>[^*\n]+)\*|`(?P<code>[^`\n]+)`")
_STYLES = {"bold": "bold", "code": "cyan"}
_LINK = re.compile(r"<([^|>]+)\|([^>]+)>")


def as_terminal(body: dict[str, Any]) -> RenderableType:
    """The blocks of a message body, in order; its text when it has none."""
    blocks = body.get("blocks") or []
    shown = [block for b in blocks if (block := _block(b)) is not None]
    return Group(*shown) if shown else mrkdwn(str(body.get("text", "")))


def mrkdwn(text: str, style: str = "") -> Text:
    """Slack's markup: *bold*, `code`, <address|name>, ```code```, and its three escapes."""
    text = _LINK.sub(r"\2 (\1)", text.replace("```", ""))
    shown = Text(style=style)
    end = 0
    for styled in _STYLED.finditer(text):
        shown.append(html.unescape(text[end : styled.start()]))
        for name, style_of in _STYLES.items():
            shown.append(html.unescape(styled[name] or ""), style=style_of)
        end = styled.end()
    shown.append(html.unescape(text[end:]))
    return shown


def _block(block: dict[str, Any]) -> RenderableType | None:
    show = _BLOCKS.get(str(block.get("type")))
    return show(block) if show is not None else None


def _section(block: dict[str, Any]) -> RenderableType:
    if block.get("fields"):
        return _fields([mrkdwn(f["text"]) for f in block["fields"]])
    text = block["text"]["text"]
    return mrkdwn(text, "cyan" if text.startswith("```") else "")


def _context(block: dict[str, Any]) -> RenderableType:
    return Text(" · ").join(mrkdwn(e.get("text", ""), "dim") for e in block["elements"])


def _fields(fields: list[Text]) -> Table:
    table = Table.grid(padding=(0, 4))
    for left in range(0, len(fields), 2):
        table.add_row(*fields[left : left + 2])
    return table


def _texts(element: dict[str, Any]) -> list[str]:
    """Every text inside a rich_text block."""
    own = [str(element["text"])] if isinstance(element.get("text"), str) else []
    inner = [t for e in element.get("elements", []) for t in _texts(e)]
    return own + inner


_BLOCKS: dict[str, Callable[[dict[str, Any]], RenderableType]] = {
    "header": lambda block: Text(block["text"]["text"], style="bold reverse"),
    "section": _section,
    "context": _context,
    "divider": lambda _: Text("─" * 40, style="dim"),
    "rich_text": lambda block: Text("".join(_texts(block)), style="cyan"),
}
