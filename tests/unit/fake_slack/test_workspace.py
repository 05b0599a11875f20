"""Files, memberships, permissions and rate limits of the stand-in, as Slack's documentation states them."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from tests.fake_slack.rates import Rates
from tests.fake_slack.server import TOKEN, SlackServer

PNG = b"\x89PNG\r\n\x1a\n and so on"


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer(channels=("alerts",)) as server:
        yield server


@pytest.fixture
def client(slack: SlackServer) -> WebClient:
    return WebClient(token=TOKEN, base_url=slack.base_url, timeout=20, retry_handlers=[])


def refusal(call: Any, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as caught:
        call(**arguments)
    return str(caught.value.response["error"])


def test_the_sdks_upload_ends_in_the_thread_and_on_the_page(client: WebClient, slack: SlackServer) -> None:
    channel = slack.channel_id("alerts")
    ts = client.chat_postMessage(channel=channel, text="parent")["ts"]
    answer = client.files_upload_v2(
        channel=channel, thread_ts=ts, content=PNG, filename="a.png", title="A", alt_txt="what it shows"
    )
    (reply,) = slack.replies(ts)
    (name,) = reply.files
    assert answer["file"] == {"id": name, "title": "A"}
    assert (slack.file(name).content, slack.file(name).alt) == (PNG, "what it shows")
    assert [call.method for call in slack.calls][1:] == [
        "files.getUploadURLExternal",
        "upload",
        "files.completeUploadExternal",
    ]
    with urllib.request.urlopen(f"{slack.url}files/{name}", timeout=20) as shown:
        assert shown.headers["Content-Type"] == "image/png"
        assert shown.read() == PNG
    with urllib.request.urlopen(f"{slack.url}fragment", timeout=20) as page:
        assert f"/files/{name}" in page.read().decode()


def test_sharing_a_file_needs_the_channels_id_and_its_bytes(client: WebClient, slack: SlackServer) -> None:
    announced = client.files_getUploadURLExternal(filename="a.png", length=len(PNG))
    share = [{"id": announced["file_id"], "title": "A"}]
    assert refusal(client.files_completeUploadExternal, files=share, channel_id="C0000000001") == "file_not_found"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(announced["upload_url"], data=PNG + b"more", timeout=20)
    urllib.request.urlopen(announced["upload_url"], data=PNG, timeout=20).close()
    assert refusal(client.files_completeUploadExternal, files=share, channel_id="alerts") == "channel_not_found"
    assert client.files_completeUploadExternal(files=share, channel_id="C0000000001")["ok"]


def test_a_missing_scope_is_named(client: WebClient, slack: SlackServer) -> None:
    slack.take_scope("files:write")
    with pytest.raises(SlackApiError) as caught:
        client.files_getUploadURLExternal(filename="a.png", length=1)
    assert caught.value.response["error"] == "missing_scope"
    assert caught.value.response["needed"] == "files:write"


def test_a_bot_that_was_removed_is_not_in_the_channel_until_it_is_invited(
    client: WebClient, slack: SlackServer
) -> None:
    slack.remove_bot("#alerts")
    assert refusal(client.chat_postMessage, channel="alerts", text="hi") == "not_in_channel"
    slack.invite_bot("#alerts")
    assert client.chat_postMessage(channel="alerts", text="hi")["ok"]


def test_a_broadcast_reply_is_in_the_thread_and_marked(client: WebClient, slack: SlackServer) -> None:
    ts = client.chat_postMessage(channel="alerts", text="parent")["ts"]
    client.chat_postMessage(channel="alerts", text="worse", thread_ts=ts, reply_broadcast=True)
    client.chat_postMessage(channel="alerts", text="more", thread_ts=ts)
    assert [reply.broadcast for reply in slack.replies(ts)] == [True, False]


def test_posts_over_the_limit_get_429_and_other_methods_and_channels_go_on() -> None:
    with SlackServer(channels=("alerts", "other"), limits=True) as slack:
        client = WebClient(token=TOKEN, base_url=slack.base_url, timeout=20, retry_handlers=[])
        ts = client.chat_postMessage(channel="alerts", text="hi")["ts"]
        limited = None
        for _ in range(20):
            try:
                client.chat_postMessage(channel="alerts", text="hi")
            except SlackApiError as error:
                limited = error.response
                break
        assert limited is not None
        assert limited.status_code == 429
        assert int(limited.headers["Retry-After"]) >= 1
        assert client.chat_postMessage(channel="other", text="hi")["ok"]
        assert client.chat_update(channel=slack.channel_id("alerts"), ts=ts, text="new")["ok"]


def test_waiting_as_long_as_asked_is_enough() -> None:
    rates, now, sent = Rates(), 0.0, 0
    while sent < 100:
        wait = rates.wait("chat.update", {}, now)
        now += wait
        sent += wait == 0
    least = (100 - 50 / 6) * 60 / 50
    assert least - 2 <= now <= 2 * least
    assert rates.wait("auth.test", {}, now) == 0
