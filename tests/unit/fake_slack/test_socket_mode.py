"""The fake Slack speaks Socket Mode as its documentation says, to Slack's SDK."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.fake_slack.server import APP_TOKEN, TOKEN, SlackServer

BUTTON = {
    "type": "button",
    "action_id": "flinkwatch_acknowledge",
    "text": {"type": "plain_text", "text": "a"},
    "value": "i1",
}


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


@contextmanager
def socket(slack: SlackServer) -> Iterator[ClientConnection]:
    """A connection that has got its hello."""
    with connect(WebClient(base_url=slack.base_url).apps_connections_open(app_token=APP_TOKEN)["url"]) as made:
        assert json.loads(made.recv(timeout=10))["type"] == "hello"
        yield made


def posted(slack: SlackServer) -> str:
    web = WebClient(token=TOKEN, base_url=slack.base_url)
    blocks = [{"type": "actions", "elements": [BUTTON]}]
    return str(web.chat_postMessage(channel="flink-alerts", text="x", blocks=blocks)["ts"])


def test_a_connection_needs_an_app_token_and_an_address_with_a_ticket(slack: SlackServer) -> None:
    with pytest.raises(SlackApiError, match="invalid_auth"):
        WebClient(base_url=slack.base_url).apps_connections_open(app_token=TOKEN)
    with pytest.raises(ConnectionClosed), connect(slack.sockets.address().partition("?")[0]) as without:
        without.recv(timeout=10)


def test_an_envelope_is_sent_again_to_another_connection_until_it_is_acknowledged(slack: SlackServer) -> None:
    slack.sockets.ack_within_s = 0.1
    with socket(slack) as first, socket(slack) as second:
        envelope = slack.press(posted(slack), "acknowledge")
        got = [json.loads(one.recv(timeout=10)) for one in (first, second)]
        assert got[0]["envelope_id"] == got[1]["envelope_id"]
        assert {one["retry_attempt"] for one in got} == {0, 1}
        assert got[0]["payload"]["actions"][0]["value"] == "i1"
        second.send(json.dumps({"envelope_id": got[0]["envelope_id"]}))
        assert envelope.acknowledged.wait(10)


def test_a_disconnect_has_a_reason_and_ends_the_connection(slack: SlackServer) -> None:
    with socket(slack) as one:
        slack.sockets.disconnect("refresh_requested")
        assert json.loads(one.recv(timeout=10))["reason"] == "refresh_requested"
        with pytest.raises(ConnectionClosed):
            one.recv(timeout=10)
    slack.sockets.wait_for_sockets(0)


def test_the_page_has_the_buttons_and_presses_them(slack: SlackServer) -> None:
    with socket(slack) as one:
        ts = posted(slack)
        with urllib.request.urlopen(slack.url, timeout=20) as page:
            assert '<button data-wish="acknowledge">a</button>' in page.read().decode()
        got: list[object] = []
        reader = threading.Thread(target=lambda: got.append(json.loads(one.recv(timeout=10))["type"]))
        reader.start()
        headers = {"Content-Type": "application/json"}
        body = json.dumps({"ts": ts, "wish": "acknowledge"}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{slack.url}press", body, headers), timeout=20).close()
        reader.join(10)
        assert got == ["interactive"]
        missing = json.dumps({"ts": ts, "wish": "dance"}).encode()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(urllib.request.Request(f"{slack.url}press", missing, headers), timeout=20)
