"""The workspace of the fake Slack: its channels, and the methods of the web API that work on them."""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.fake_slack.limits import blocks_problem
from tests.fake_slack.objects import BOT_USER, TEAM, Body, Posted, Upload

_TEXT_LIMIT = 40_000
_HISTORY_DEFAULT = 100
_SCOPES = frozenset({"chat:write", "channels:history", "files:write", "usergroups:read"})
_NEEDED = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "conversations.history": "channels:history",
    "conversations.replies": "channels:history",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "usergroups.users.list": "usergroups:read",
}


class Workspace:
    """Not thread-safe: the server has the lock."""

    def __init__(self, channels: Sequence[str], token: str, url: str) -> None:
        self.channels = {name.lstrip("#"): f"C{number:010d}" for number, name in enumerate(channels, 1)}
        self.messages: list[Posted] = []
        self.files: dict[str, Upload] = {}
        self.scopes = set(_SCOPES)
        self.left: set[str] = set()
        self.groups: dict[str, list[str]] = {}
        self._token = token
        self._url = url
        self._numbers = itertools.count(1)
        self._methods: dict[str, Callable[[Body], Body]] = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "files.getUploadURLExternal": self._announce_file,
            "files.completeUploadExternal": self._share_files,
            "usergroups.users.list": self._members,
        }

    def answer(self, method: str, body: Body, token: str) -> Body:
        """What Slack answers."""
        if not token:
            return error("not_authed")
        if token != self._token:
            return error("invalid_auth")
        if method not in self._methods:
            return error("unknown_method")
        needed = _NEEDED.get(method)
        if needed is not None and needed not in self.scopes:
            return error("missing_scope") | {"needed": needed, "provided": ",".join(sorted(self.scopes))}
        return self._methods[method](body)

    def receive(self, file: str, content: bytes) -> bool:
        """The bytes of a file that was announced. Whether they are taken."""
        upload = self.files.get(file)
        if upload is None or upload.content is not None or len(content) != upload.length:
            return False
        upload.content = content
        return True

    def parents(self) -> list[Posted]:
        """The messages of the channels, without replies, oldest first."""
        return [message for message in self.messages if message.thread_ts is None]

    def replies(self, ts: str) -> list[Posted]:
        """The replies in the thread of `ts`, oldest first."""
        return [message for message in self.messages if message.thread_ts == ts]

    def _auth_test(self, _: Body) -> Body:
        return {
            "ok": True,
            "url": self._url,
            "team": "Local",
            "user": "flinkwatch",
            "user_id": BOT_USER,
            "team_id": TEAM,
        }

    def _members(self, body: Body) -> Body:
        group = str(body.get("usergroup", ""))
        return {"ok": True, "users": self.groups[group]} if group in self.groups else error("no_such_subteam")

    def _post(self, body: Body) -> Body:
        name = str(body.get("channel", "")).lstrip("#")
        channel = self.channels.get(name) or (name if name in self.channels.values() else None)
        if channel is None:
            return error("channel_not_found")
        problem = self._place_problem(channel, body.get("thread_ts")) or _content_problem(body)
        if problem:
            return error(problem)
        message = Posted(channel, self._new_ts(), thread_ts=body.get("thread_ts"), metadata=body.get("metadata"))
        message.text, message.blocks = str(body.get("text", "")), list(body.get("blocks") or [])
        message.broadcast = message.thread_ts is not None and _yes(body.get("reply_broadcast"))
        self.messages.append(message)
        return {"ok": True, "channel": channel, "ts": message.ts, "message": message.as_slack(with_metadata=False)}

    def _update(self, body: Body) -> Body:
        channel = str(body.get("channel", ""))
        if channel not in self.channels.values():
            return error("channel_not_found")
        message = self._find(channel, str(body.get("ts", "")))
        if message is None:
            return error("message_not_found")
        problem = _content_problem(body)
        if problem:
            return error(problem)
        message.text = str(body.get("text", message.text))
        message.blocks = list(body["blocks"]) if body.get("blocks") is not None else message.blocks
        message.metadata = body.get("metadata", message.metadata)
        message.edited_ts = self._new_ts()
        return {"ok": True, "channel": channel, "ts": message.ts, "text": message.text}

    def _history(self, body: Body) -> Body:
        channel = str(body.get("channel", ""))
        problem = self._place_problem(channel, None)
        if problem:
            return error(problem)
        oldest, limit = float(body.get("oldest", 0)), int(body.get("limit", _HISTORY_DEFAULT))
        found = [m for m in self.parents() if m.channel == channel and float(m.ts) > oldest]
        # Newest first, as Slack does.
        return _page_of(found[::-1], limit, body)

    def _replies(self, body: Body) -> Body:
        channel, ts = str(body.get("channel", "")), str(body.get("ts", ""))
        problem = self._place_problem(channel, ts)
        if problem:
            return error(problem)
        parent = self._find(channel, ts)
        found = [parent] if parent is not None else []
        return _page_of([*found, *self.replies(ts)], int(body.get("limit", _HISTORY_DEFAULT)), body)

    def _announce_file(self, body: Body) -> Body:
        name, length = str(body.get("filename") or ""), int(body.get("length") or 0)
        if not name or length <= 0:
            return error("invalid_arguments")
        file = f"F{next(self._numbers):010d}"
        self.files[file] = Upload(name, length, str(body.get("alt_txt") or ""))
        return {"ok": True, "upload_url": f"{self._url}upload/{file}", "file_id": file}

    def _share_files(self, body: Body) -> Body:
        shared = list(body.get("files") or [])
        if not shared or not all(isinstance(one, dict) for one in shared):
            return error("invalid_arguments")
        uploads = [self.files.get(str(one.get("id"))) for one in shared]
        if any(upload is None or upload.content is None for upload in uploads):
            return error("file_not_found")
        for one, upload in zip(shared, uploads, strict=True):
            if upload is not None:
                upload.title = str(one.get("title") or upload.name)
        names = [str(one["id"]) for one in shared]
        if body.get("channel_id"):
            # The ID alone: a name is refused, unlike in chat.postMessage.
            channel = str(body["channel_id"])
            problem = self._place_problem(channel, body.get("thread_ts"))
            if problem:
                return error(problem)
            text = str(body.get("initial_comment") or "")
            message = Posted(channel, self._new_ts(), text, thread_ts=body.get("thread_ts"), files=names)
            self.messages.append(message)
        return {"ok": True, "files": [{"id": name, "title": self.files[name].title} for name in names]}

    def _place_problem(self, channel: str, thread_ts: Any) -> str:
        if channel not in self.channels.values():
            return "channel_not_found"
        if channel in self.left:
            return "not_in_channel"
        missing = thread_ts is not None and self._find(channel, str(thread_ts)) is None
        return "thread_not_found" if missing else ""

    def _find(self, channel: str, ts: str) -> Posted | None:
        return next((m for m in self.messages if m.channel == channel and m.ts == ts), None)

    def _new_ts(self) -> str:
        return f"{int(time.time())}.{next(self._numbers):06d}"


def error(code: str) -> Body:
    """An answer that is not ok; Slack sends it with status 200."""
    return {"ok": False, "error": code}


def _page_of(messages: list[Posted], limit: int, body: Body) -> Body:
    with_metadata = _yes(body.get("include_all_metadata"))
    begin = int(body.get("cursor") or 0)
    shown = [message.as_slack(with_metadata) for message in messages[begin : begin + limit]]
    more = len(messages) > begin + limit
    cursor = str(begin + limit) if more else ""
    return {"ok": True, "messages": shown, "has_more": more, "response_metadata": {"next_cursor": cursor}}


def _content_problem(body: Body) -> str:
    text, blocks = str(body.get("text") or ""), body.get("blocks")
    if not text and not blocks and not body.get("attachments"):
        return "no_text"
    if len(text) > _TEXT_LIMIT:
        return "msg_too_long"
    return blocks_problem(blocks) if blocks else ""


def _yes(value: Any) -> bool:
    return str(value).lower() in {"1", "true"}
