"""The stand-in answers as Slack's documentation says, to the SDK and to plain HTTP."""

import http.client
import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from tests.fake_slack.page import mrkdwn
from tests.fake_slack.server import TOKEN, Call, SlackServer

SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "*hello*"}}


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer(channels=("alerts", "#other")) as server:
        yield server


@pytest.fixture
def client(slack: SlackServer) -> WebClient:
    return WebClient(token=TOKEN, base_url=slack.base_url, timeout=20, retry_handlers=[])


def refusal(call: Any, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as caught:
        call(**arguments)
    return str(caught.value.response["error"])


@pytest.mark.parametrize("name", ["alerts", "#alerts", "C0000000001"])
def test_posting_takes_a_name_or_an_id_and_answers_with_the_id(client: WebClient, name: str) -> None:
    answer = client.chat_postMessage(channel=name, text="hi")
    assert answer["channel"] == "C0000000001"
    assert float(answer["ts"]) > 0


def test_editing_needs_the_id(client: WebClient) -> None:
    ts = client.chat_postMessage(channel="alerts", text="hi")["ts"]
    assert refusal(client.chat_update, channel="alerts", ts=ts, text="new") == "channel_not_found"
    assert client.chat_update(channel="C0000000001", ts=ts, text="new")["text"] == "new"
    assert refusal(client.chat_update, channel="C0000000001", ts="1.2", text="new") == "message_not_found"


def test_an_edit_without_blocks_keeps_the_old_ones(client: WebClient, slack: SlackServer) -> None:
    ts = client.chat_postMessage(channel="alerts", text="hi", blocks=[SECTION])["ts"]
    client.chat_update(channel="C0000000001", ts=ts, text="new")
    assert slack.parents()[0].blocks == [SECTION]
    client.chat_update(channel="C0000000001", ts=ts, text="new", blocks=[])
    assert slack.parents()[0].blocks == []


def test_history_is_newest_first_and_gives_metadata_when_asked(client: WebClient) -> None:
    metadata = {"event_type": "x", "event_payload": {"incident": "i", "seq": 1}}
    first = client.chat_postMessage(channel="alerts", text="1", metadata=metadata)["ts"]
    second = client.chat_postMessage(channel="alerts", text="2")["ts"]
    client.chat_postMessage(channel="alerts", text="reply", thread_ts=first)
    client.chat_postMessage(channel="other", text="elsewhere")
    channel = "C0000000001"
    found = client.conversations_history(channel=channel, include_all_metadata=True)["messages"]
    assert [message["ts"] for message in found] == [second, first]
    assert found[1]["metadata"] == metadata
    assert "metadata" not in client.conversations_history(channel=channel)["messages"][1]
    assert len(client.conversations_history(channel=channel, limit=1)["messages"]) == 1
    assert [m["text"] for m in client.conversations_replies(channel=channel, ts=first)["messages"]] == ["1", "reply"]


def test_a_thread_must_exist(client: WebClient) -> None:
    assert refusal(client.chat_postMessage, channel="alerts", text="a", thread_ts="1.1") == "thread_not_found"


def test_tokens_are_checked(slack: SlackServer) -> None:
    assert WebClient(token=TOKEN, base_url=slack.base_url).auth_test()["ok"]
    assert refusal(WebClient(token="xoxb-other", base_url=slack.base_url).auth_test) == "invalid_auth"
    assert refusal(WebClient(base_url=slack.base_url).auth_test) == "not_authed"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"channel": "nowhere", "text": "a"}, "channel_not_found"),
        ({"text": ""}, "no_text"),
        ({"text": "a" * 40_001}, "msg_too_long"),
        ({"text": "a", "blocks": [SECTION] * 51}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "section"}]}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "nonsense"}]}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "header", "text": {"type": "mrkdwn", "text": "a"}}]}, "invalid_blocks"),
        (
            {"text": "a", "blocks": [{"type": "header", "text": {"type": "plain_text", "text": "a" * 151}}]},
            "invalid_blocks",
        ),
        (
            {"text": "a", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "a" * 3001}}]},
            "invalid_blocks",
        ),
        ({"text": "a", "blocks": [{"type": "section", "fields": [SECTION["text"]] * 11}]}, "invalid_blocks"),
        (
            {"text": "a", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "a" * 3000}}] * 5},
            "msg_blocks_too_long",
        ),
    ],
)
def test_limits_are_checked(client: WebClient, arguments: dict[str, Any], error: str) -> None:
    assert refusal(client.chat_postMessage, **{"channel": "alerts"} | arguments) == error


def test_an_unknown_method_is_refused(client: WebClient) -> None:
    assert refusal(client.api_call, api_method="chat.shout") == "unknown_method"


def test_form_and_multipart_bodies_are_understood(slack: SlackServer, client: WebClient) -> None:
    form = {"token": TOKEN, "channel": "alerts", "text": "form", "blocks": json.dumps([SECTION])}
    body = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(slack.base_url + "chat.postMessage", data=body, timeout=20) as answer:
        assert json.load(answer)["ok"] is True
    client.api_call("chat.postMessage", data={"channel": "alerts", "text": "multipart ü"})
    assert [(m.text, m.blocks) for m in slack.parents()] == [("form", [SECTION]), ("multipart ü", [])]


def test_faults_come_in_order_and_then_end(slack: SlackServer, client: WebClient) -> None:
    slack.fail_next("chat.postMessage", error="fatal_error")
    slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "7"}, error="ratelimited")
    assert refusal(client.chat_postMessage, channel="alerts", text="a") == "fatal_error"
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="alerts", text="a")
    assert caught.value.response.status_code == 429
    assert caught.value.response.headers["Retry-After"] == "7"
    assert client.chat_postMessage(channel="alerts", text="a")["ok"]


@pytest.mark.parametrize("accept", [True, False])
@pytest.mark.parametrize("fault", [{"reset": True}, {"silent_s": 0.05}])
def test_a_lost_answer_may_or_may_not_have_taken_effect(
    slack: SlackServer, client: WebClient, fault: dict[str, Any], accept: bool
) -> None:
    slack.fail_next("chat.postMessage", accept=accept, **fault)
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        client.chat_postMessage(channel="alerts", text="a")
    assert len(slack.parents()) == int(accept)


def test_closing_ends_requests_that_wait() -> None:
    slack = SlackServer()
    slack.fail_next("auth.test", silent_s=60)
    errors: list[Exception] = []

    def ask() -> None:
        try:
            WebClient(token=TOKEN, base_url=slack.base_url, timeout=30, retry_handlers=[]).auth_test()
        except OSError as error:
            errors.append(error)

    called = threading.Event()
    slack.on_call = lambda call: called.set()
    thread = threading.Thread(target=ask)
    thread.start()
    assert called.wait(5)
    slack.close()
    thread.join(timeout=5)
    assert len(errors) == 1


def test_calls_are_logged_and_told(client: WebClient, slack: SlackServer) -> None:
    told: list[Call] = []
    slack.on_call = told.append
    client.chat_postMessage(channel="alerts", text="a")
    assert told == slack.calls
    assert (told[0].method, told[0].body["text"]) == ("chat.postMessage", "a")
    assert TOKEN not in repr(told)


def test_the_page_shows_what_the_channel_holds(client: WebClient, slack: SlackServer) -> None:
    ts = client.chat_postMessage(channel="alerts", text="a", blocks=[SECTION])["ts"]
    client.chat_postMessage(channel="alerts", text="in <thread> & more", thread_ts=ts)
    client.chat_update(channel="C0000000001", ts=ts, text="a", blocks=[SECTION])
    with urllib.request.urlopen(slack.url, timeout=20) as answer:
        shown = answer.read().decode()
    for part in ("#alerts", "<b>hello</b>", "(edited)", "1 reply"):
        assert part in shown
    with urllib.request.urlopen(slack.url + "messages.json", timeout=20) as answer:
        assert len(json.load(answer)) == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("*bold* _it_ ~no~", "<b>bold</b> <i>it</i> <s>no</s>"),
        ("my_job_name 3*4", "my_job_name 3*4"),
        ("`a&lt;b`", "<code>a&lt;b</code>"),
        ("```\na *b*\n```", "<pre>a *b*</pre>"),
        ("<https://a.example/x|Runbook>", '<a href="https://a.example/x">Runbook</a>'),
        ("&lt;!channel&gt;", "&lt;!channel&gt;"),
        ("<!channel>", '<span class="mention">@channel</span>'),
        ("<script>", "&lt;script&gt;"),
        ("a\nb", "a<br>b"),
    ],
)
def test_markup_is_shown_as_slack_does(text: str, shown: str) -> None:
    assert mrkdwn(text) == shown
