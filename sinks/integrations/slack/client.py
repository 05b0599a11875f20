"""Calls Slack's Web API and classifies the responses. It does not format messages, retry, or wait.

Every call returns an outcome of `sinks.contract.outcome` and raises no exception.
"""

import http.client
import logging
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackRequestError

from sinks.contract.outcome import Delivered, Found, Outcome, Refused, RetryAfter, Unknown
from sinks.integrations.calls import classify_transport, within
from sinks.integrations.slack.charts.worker import ChartImage
from sinks.integrations.slack.errors import classify_answer
from sinks.integrations.slack.message.blocks import Message
from sinks.integrations.slack.settings import SlackConfig
from sinks.secret import SecretError

_T = TypeVar("_T")

_EVENT_TYPE = "flinkwatch_incident"
_HISTORY_LIMIT = 200
# Searching more pages would take too long.
_HISTORY_PAGES = 20
# What the SDK raises for a response that is not a JSON object, or not text.
_NOT_SLACK = (AttributeError, TypeError, ValueError, LookupError)


class SlackClient:
    """Posts, edits and finds messages in one channel."""

    def __init__(self, config: SlackConfig) -> None:
        self._config = config
        # Below this level, the SDK logs an error for each failed attempt, and whole message bodies.
        self._silent = logging.getLogger("flinkwatch.slack_sdk")
        self._silent.setLevel(logging.CRITICAL)

    def post(self, message: Message, incident: str, seq: int) -> Outcome:
        return self._call("chat.postMessage", {"channel": self._config.channel, **_body(message, incident, seq)})

    def edit(self, channel: str, ts: str, message: Message, incident: str, seq: int) -> Outcome:
        """Replace the content of message `ts` in channel ID `channel`. Doing it twice changes nothing."""
        return self._call("chat.update", {"channel": channel, "ts": ts, **_body(message, incident, seq)})

    def reply(self, channel: str, ts: str, message: Message, *, broadcast: bool = False) -> Outcome:
        """Post a line in the thread of `ts`, with `broadcast` also in the channel."""
        body = {"channel": channel, "thread_ts": ts, "text": message.text, "reply_broadcast": broadcast, **_QUIET}
        return self._call("chat.postMessage", body)

    def upload(self, channel: str, ts: str, picture: ChartImage) -> Outcome:
        """Upload a chart to the thread of `ts` in channel ID `channel`; the SDK makes three calls for that."""

        content, title, alt = picture

        def put(web: WebClient) -> Delivered:
            web.files_upload_v2(
                channel=channel, thread_ts=ts, content=content, filename="chart.png", title=title, alt_txt=alt
            )
            return Delivered(channel, ts)

        return self._outcome(put, calls=3)

    def ask(
        self, method: str, parameters: dict[str, Any], token: str | None = None
    ) -> dict[str, Any] | RetryAfter | Unknown | Refused:
        """Makes any other call and returns Slack's answer. `token`: another one than the bot's."""

        def call(web: WebClient) -> dict[str, Any]:
            answer = web.api_call(method, params=parameters).data
            return answer if isinstance(answer, dict) else {}

        return self._outcome(call, token=token)

    def find(self, channel: str, incident: str, since: int) -> Found | RetryAfter | None:
        """Our newest message of `incident` in channel ID `channel` since `since` (epoch ms).

        None if there is none, or if the app has no permission to read the channel.
        """
        for page in self._pages(channel, since):
            if isinstance(page, RetryAfter) or incident in page.found:
                return page if isinstance(page, RetryAfter) else page.found[incident]
        return None

    def recent(self, channel: str, since: int) -> dict[str, Found] | RetryAfter:
        """Our newest message of each incident in channel ID `channel` since `since` (epoch ms).

        Empty if the app has no permission to read the channel.
        """
        found: dict[str, Found] = {}
        for page in self._pages(channel, since):
            if isinstance(page, RetryAfter):
                return page
            # Pages are newest first. An older message of the same incident is not edited any more.
            found = page.found | found
        return found

    def _pages(self, channel: str, since: int) -> Iterator["_Page | RetryAfter"]:
        cursor = ""
        for _ in range(_HISTORY_PAGES):
            page = self._history(channel, since, cursor)
            yield page
            if isinstance(page, RetryAfter) or not page.next:
                return
            cursor = page.next

    def _history(self, channel: str, since: int, cursor: str) -> "_Page | RetryAfter":
        query = {"channel": channel, "oldest": f"{since / 1000:.6f}", "limit": _HISTORY_LIMIT}
        query |= {"include_all_metadata": True, **({"cursor": cursor} if cursor else {})}

        def read(web: WebClient) -> _Page:
            history = web.api_call("conversations.history", params=query)
            following = (history.get("response_metadata") or {}).get("next_cursor") or ""
            return _Page(_ours(history.get("messages") or [], channel), str(following))

        page = self._outcome(read)
        if isinstance(page, Unknown):
            return RetryAfter(None, page.reason, page.failure)
        return _Page({}, "") if isinstance(page, Refused) else page

    def _web(self, token: str | None = None) -> WebClient:
        # A new client for each call, so that a rotated token takes effect. It keeps no connection open.
        web = WebClient(
            token=self._config.token() if token is None else token,
            base_url=self._config.base_url,
            timeout=max(1, self._config.timeout // 1000),
            retry_handlers=[],
            logger=self._silent,
        )
        if urllib.request.proxy_bypass(urlsplit(self._config.base_url).hostname or ""):
            # The SDK uses HTTPS_PROXY from the environment but ignores NO_PROXY.
            web.proxy = None
        return web

    def _call(self, method: str, body: dict[str, Any]) -> Outcome:
        def call(web: WebClient) -> Delivered | Unknown:
            answer = web.api_call(method, json=body)
            channel, ts = answer.get("channel"), answer.get("ts")
            return Delivered(channel, ts) if channel and ts else Unknown("ok without a ts", "other")

        return self._outcome(call)

    def _outcome(
        self, call: Callable[[WebClient], _T], calls: int = 1, token: str | None = None
    ) -> _T | RetryAfter | Unknown | Refused:
        """Makes one or more calls. The timeout applies to connection and response of each, so the limit is twice it."""
        try:
            web = self._web(token)
            limit_s = 2 * web.timeout * calls
            return within(f"{self._config.base_url} {self._config.channel}", limit_s, lambda: call(web))
        except SecretError as error:
            return Refused("no_token", str(error), "setup", "authError")
        except SlackRequestError:
            return Refused("invalid_url", "base_url is not an http(s) address", "setup", "clientError")
        except SlackApiError as error:
            return classify_answer(error)
        except (OSError, http.client.HTTPException) as error:
            return classify_transport(error)
        except _NOT_SLACK as error:
            return Unknown(f"the response is not from Slack's API: {type(error).__name__}", "other")


_QUIET: dict[str, Any] = {"unfurl_links": False, "unfurl_media": False, "link_names": False, "parse": "none"}


class _Page(NamedTuple):
    found: dict[str, Found]
    next: str


def _ours(messages: list[dict[str, Any]], channel: str) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for message in messages:
        metadata = message.get("metadata") or {}
        payload = metadata.get("event_payload") or {}
        incident, seq = payload.get("incident"), payload.get("seq")
        if metadata.get("event_type") == _EVENT_TYPE and isinstance(incident, str) and isinstance(seq, int):
            # The newest message comes first.
            found.setdefault(incident, Found(channel, str(message["ts"]), seq))
    return found


def _body(message: Message, incident: str, seq: int) -> dict[str, Any]:
    metadata = {"event_type": _EVENT_TYPE, "event_payload": {"incident": incident, "seq": seq}}
    # The blocks are always sent, because an edit without any would keep the old ones.
    return {"text": message.text, "blocks": message.blocks, "metadata": metadata, **_QUIET}
