"""The page of the fake Slack: the channel as Slack would show it, refreshed every second."""

import html
import re
from datetime import UTC, datetime
from typing import Any

Block = dict[str, Any]

_CODE_BLOCK = re.compile(r"```\n?(.*?)\n?```", re.DOTALL)
_SPAN = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|<(?P<url>https?://[^|>\s]+)(?:\|(?P<label>[^>]+))?>"
    r"|<!(?P<mention>channel|here|everyone)>"
    r"|(?<![^\W_])\*(?P<bold>[^*\n]+)\*(?![^\W_])"
    r"|(?<![^\W_])_(?P<italic>[^_\n]+)_(?![^\W_])"
    r"|(?<![^\W_])~(?P<struck>[^~\n]+)~(?![^\W_])"
)

_STYLE = """
body{margin:0;font:15px/1.46 Lato,system-ui,sans-serif;color:#1d1c1d;background:#fff}
h1{font-size:18px;margin:0;padding:14px 20px;border-bottom:1px solid #ddd;position:sticky;top:0;background:#fff}
.message{display:flex;gap:10px;padding:10px 20px;max-width:860px}.message:hover{background:#f8f8f8}
.avatar{width:36px;height:36px;border-radius:8px;background:#e01e5a;color:#fff;font:700 20px/36px sans-serif;
 text-align:center;flex:none}
.body{min-width:0;flex:1}.who{font-weight:900}.app{font-size:10px;background:#e8e8e8;border-radius:2px;padding:1px 3px}
.time,.edited,.context,.replies{color:#616061;font-size:12px}
.header{font-size:18px;font-weight:900;margin:4px 0}.section,.context{margin:6px 0;overflow-wrap:anywhere}
.fields{display:grid;grid-template-columns:1fr 1fr;gap:8px 16px;margin:6px 0}
code{color:#c01343;background:#f6f6f6;border:1px solid #ddd;border-radius:3px;padding:1px 3px;font-size:12px}
pre{background:#f6f6f6;border:1px solid #ddd;border-radius:4px;padding:8px;margin:4px 0;font-size:12px;
 white-space:pre-wrap;overflow-wrap:anywhere}
.actions{display:flex;gap:8px;margin:8px 0}.actions>*{font:inherit;font-weight:700;padding:4px 10px;background:#fff;
 border:1px solid #bbb;border-radius:4px}
.mention{background:#fdf2d0;color:#b7791f}.empty{padding:20px;color:#616061}
.file{display:block;max-width:100%;border:1px solid #ddd;border-radius:8px;margin:4px 0}
.thread{border-left:3px solid #ddd;padding-left:10px;margin-top:6px}
"""

# Only when something changed: so that text can be selected and the place on the page stays.
_SCRIPT = """
let last="";setInterval(async()=>{try{const t=await(await fetch("/fragment")).text();
if(t!==last){last=t;document.getElementById("channel").innerHTML=t}}catch{}},1000);
const press=e=>fetch("/press",{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(
{ts:e.closest(".message").id,wish:e.dataset.wish,choice:e.value||""})});
document.addEventListener("click",e=>{if(e.target.matches("button[data-wish]"))press(e.target)});
document.addEventListener("change",e=>{if(e.target.matches("select[data-wish]")&&e.target.value)press(e.target)});
"""


def page(messages: list[Block], channels: dict[str, str]) -> str:
    """The whole page. `channels` maps ID to name."""
    title = html.escape(", ".join(f"#{name}" for name in channels.values()))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f'<h1>{title}</h1><div id="channel">{fragment(messages, channels)}</div><script>{_SCRIPT}</script></html>'
    )


def fragment(messages: list[Block], channels: dict[str, str]) -> str:
    """The messages alone, each with its thread."""
    parents = [message for message in messages if "thread_ts" not in message]
    if not parents:
        return '<p class="empty">No message yet.</p>'
    return "".join(_message(parent, messages, channels) for parent in parents)


def _message(parent: Block, messages: list[Block], channels: dict[str, str]) -> str:
    replies = [message for message in messages if message.get("thread_ts") == parent["ts"]]
    where = f" in #{html.escape(channels.get(parent['channel'], '?'))}" if len(channels) > 1 else ""
    edited = '<span class="edited">(edited)</span>' if "edited" in parent else ""
    thread = "".join(
        f'<div>{_text(reply)} <span class="time">{_time(reply)}</span>{_files(reply)}</div>' for reply in replies
    )
    count = f"{len(replies)} {'reply' if len(replies) == 1 else 'replies'}"
    return (
        f'<div class="message" id="{html.escape(parent["ts"])}"><div class="avatar">f</div><div class="body">'
        f'<span class="who">flinkwatch</span> <span class="app">APP</span> '
        f'<span class="time">{_time(parent)}{where}</span>{_text(parent)}{edited}'
        + (f'<div class="thread"><div class="replies">{count}</div>{thread}</div>' if replies else "")
        + "</div></div>"
    )


def _files(message: Block) -> str:
    names = [html.escape(file["id"]) for file in message.get("files", [])]
    return "".join(f'<img class="file" src="/files/{name}" alt="">' for name in names)


def _text(message: Block) -> str:
    blocks = message.get("blocks") or [{"type": "section", "text": {"type": "mrkdwn", "text": message["text"]}}]
    return "".join(map(_block, blocks))


def _block(block: Block) -> str:
    match block.get("type"):
        case "header":
            return f'<div class="header">{_object(block["text"])}</div>'
        case "section":
            text = f'<div class="section">{_object(block["text"])}</div>' if "text" in block else ""
            fields = "".join(f"<div>{_object(one)}</div>" for one in block.get("fields", []))
            return text + (f'<div class="fields">{fields}</div>' if fields else "")
        case "context":
            return f'<div class="context">{" ".join(map(_object, block["elements"]))}</div>'
        case "actions":
            return f'<div class="actions">{"".join(map(_button, block["elements"]))}</div>'
        case "divider":
            return "<hr>"
        case _:
            return ""


def _button(element: Block) -> str:
    wish = html.escape(element["action_id"].partition("_")[2])
    if element["type"] == "button":
        return f'<button data-wish="{wish}">{_object(element["text"])}</button>'
    options = "".join(
        f'<option value="{html.escape(one["value"].partition("/")[2])}">{_object(one["text"])}</option>'
        for one in element["options"]
    )
    return f'<select data-wish="{wish}"><option value="">{_object(element["placeholder"])}</option>{options}</select>'


def _object(text: Block) -> str:
    if text.get("type") == "mrkdwn":
        return mrkdwn(text["text"])
    return _literal(text.get("text", ""))


def mrkdwn(text: str) -> str:
    """Slack's markup as HTML; whatever is no markup shows as it is."""
    parts = _CODE_BLOCK.split(text)
    # Every second part is the inside of a code block.
    return "".join(f"<pre>{_literal(part)}</pre>" if at % 2 else _spans(part) for at, part in enumerate(parts))


def _spans(text: str) -> str:
    pieces, position = [], 0
    for found in _SPAN.finditer(text):
        pieces += [_literal(text[position : found.start()]), _span(found)]
        position = found.end()
    shown = "".join([*pieces, _literal(text[position:])])
    return shown.strip("\n").replace("\n", "<br>")


def _span(found: re.Match[str]) -> str:
    if found["code"]:
        return f"<code>{_literal(found['code'])}</code>"
    if found["url"]:
        return f'<a href="{html.escape(found["url"])}">{_literal(found["label"] or found["url"])}</a>'
    if found["mention"]:
        return f'<span class="mention">@{found["mention"]}</span>'
    tag = next(tag for name, tag in (("bold", "b"), ("italic", "i"), ("struck", "s")) if found[name])
    return f"<{tag}>{_spans(found[found.lastgroup or 'bold'])}</{tag}>"


def _literal(text: str) -> str:
    # Slack's three entities become characters, then HTML's.
    return html.escape(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def _time(message: Block) -> str:
    return f"{datetime.fromtimestamp(float(message['ts']), tz=UTC):%H:%M:%S} UTC"
