"""Every answer Slack or the network can give, and which outcome it is."""

import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sinks.contract.outcome import Delivered, Found, Outcome, Refused, RetryAfter, Unknown
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.message.message import render, render_reply
from sinks.integrations.slack.settings import SlackConfig
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.samples import make_transition

MESSAGE = render(make_transition())


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


@pytest.fixture
def config(slack: SlackServer, monkeypatch: pytest.MonkeyPatch) -> SlackConfig:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    return SlackConfig(enabled=True, channel="#flink-alerts", base_url=slack.base_url, timeout="3s")


def post(config: SlackConfig) -> Outcome:
    return SlackClient(config).post(MESSAGE, "incident", 1)


def test_a_post_gives_the_channels_id_and_an_edit_needs_it(slack: SlackServer, config: SlackConfig) -> None:
    client = SlackClient(config)
    posted = client.post(MESSAGE, "incident", 1)
    assert isinstance(posted, Delivered)
    assert posted.channel == slack.channel_id("flink-alerts")
    edited = client.edit(posted.channel, posted.ts, render(make_transition(transition="resolved")), "incident", 2)
    assert edited == posted
    reply = client.reply(posted.channel, posted.ts, render_reply(make_transition()))
    assert isinstance(reply, Delivered)
    (parent,) = slack.parents()
    assert "Resolved" in parent.text
    assert len(slack.replies(parent.ts)) == 1


RATE_LIMIT_WORDS = "rate limited"
CASES: list[tuple[dict[str, Any], Outcome]] = [
    ({"status": 429, "headers": {"Retry-After": "7"}}, RetryAfter(7.0, RATE_LIMIT_WORDS, "rateLimited")),
    ({"status": 429, "headers": {"retry-after": "1.5"}}, RetryAfter(1.5, RATE_LIMIT_WORDS, "rateLimited")),
    ({"status": 429}, RetryAfter(30.0, RATE_LIMIT_WORDS, "rateLimited")),
    ({"status": 429, "headers": {"Retry-After": "soon"}}, RetryAfter(30.0, RATE_LIMIT_WORDS, "rateLimited")),
    ({"status": 429, "headers": {"Retry-After": "-5"}}, RetryAfter(30.0, RATE_LIMIT_WORDS, "rateLimited")),
    ({"status": 429, "headers": {"Retry-After": "nan"}}, RetryAfter(30.0, RATE_LIMIT_WORDS, "rateLimited")),
    ({"status": 429, "headers": {"Retry-After": "0"}}, RetryAfter(1.0, RATE_LIMIT_WORDS, "rateLimited")),
    ({"status": 429, "headers": {"Retry-After": "1e9"}}, RetryAfter(3600.0, RATE_LIMIT_WORDS, "rateLimited")),
    ({"error": "ratelimited"}, RetryAfter(30.0, RATE_LIMIT_WORDS, "rateLimited")),
    ({"status": 503}, RetryAfter(None, "Slack is not available", "serverError")),
    ({"status": 500}, Unknown("Slack failed with HTTP status 500", "serverError")),
    ({"error": "fatal_error"}, Unknown("Slack failed with HTTP status 200", "serverError")),
    ({"reset": True}, Unknown("connection lost: ConnectionResetError", "other")),
    ({"reset": True, "accept": True}, Unknown("connection lost: ConnectionResetError", "other")),
    ({"silent_s": 4}, Unknown("no response within the timeout", "contextDeadlineExceeded")),
    ({"silent_s": 0.01}, Unknown("connection lost: RemoteDisconnected", "other")),
]


@pytest.mark.parametrize(("fault", "expected"), CASES, ids=[str(fault) for fault, _ in CASES])
def test_each_failure_is_one_outcome(
    slack: SlackServer, config: SlackConfig, fault: dict[str, Any], expected: Outcome
) -> None:
    slack.fail_next("chat.postMessage", **fault)
    assert post(config) == expected


@pytest.mark.parametrize(
    ("error", "because", "failure"),
    [
        ("invalid_auth", "setup", "authError"),
        ("missing_scope", "setup", "authError"),
        ("channel_not_found", "setup", "clientError"),
        ("not_in_channel", "setup", "clientError"),
        ("message_not_found", "target", "clientError"),
        ("edit_window_closed", "target", "clientError"),
        ("msg_blocks_too_long", "message", "clientError"),
        ("invalid_blocks", "message", "clientError"),
        ("some_new_error", "message", "clientError"),
    ],
)
def test_each_refusal_says_what_has_to_change(
    slack: SlackServer, config: SlackConfig, error: str, because: str, failure: str
) -> None:
    slack.fail_next("chat.postMessage", error=error)
    outcome = post(config)
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.because, outcome.failure) == (error, because, failure)
    assert outcome.reason


def test_a_channel_that_does_not_exist_is_refused(config: SlackConfig) -> None:
    outcome = post(config.model_copy(update={"channel": "elsewhere"}))
    assert isinstance(outcome, Refused)
    assert outcome.code == "channel_not_found"


def test_without_a_listener_nothing_was_sent(config: SlackConfig) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/api/"
    outcome = post(config.model_copy(update={"base_url": address}))
    assert outcome == RetryAfter(None, "cannot connect: ConnectionRefusedError", "other")


def test_a_name_that_does_not_resolve_was_not_sent_to(config: SlackConfig) -> None:
    outcome = post(config.model_copy(update={"base_url": "http://slack.invalid/api/"}))
    assert outcome == RetryAfter(None, "cannot connect: the host name cannot be resolved", "other")


@pytest.mark.parametrize(
    "answer",
    [
        b"\x15\x03\x01 not http\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html>Sign in</html>",
        b'HTTP/1.1 200 OK\r\n\r\n"just a string"',
        b"HTTP/1.1 200 OK\r\n\r\n[1]",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b'HTTP/1.1 200 OK\r\n\r\n{"ok": true}',
        b'HTTP/1.1 200 OK\r\n\r\n{"ok": true, "channel": "C1", "ts"',
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=nonsense\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
        b"HTTP/1.1 502 Bad Gateway\r\n\r\n\xff\xfe",
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n<html>",
    ],
)
def test_what_is_no_answer_of_slack_leaves_the_outcome_unknown(config: SlackConfig, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                # Reads to the end, else closing would reset the connection.
                while connection.recv(65_536):
                    pass

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        outcome = post(config.model_copy(update={"base_url": f"http://127.0.0.1:{server.getsockname()[1]}/"}))
        thread.join(timeout=5)
    assert isinstance(outcome, Unknown)


def test_an_address_that_is_no_http_is_refused(config: SlackConfig) -> None:
    outcome = post(config.model_copy(update={"base_url": "file:///etc/"}))
    assert isinstance(outcome, Refused)
    assert outcome.because == "setup"


def test_a_message_of_ours_is_found_by_its_metadata(slack: SlackServer, config: SlackConfig) -> None:
    client, channel = SlackClient(config), slack.channel_id("flink-alerts")
    client.post(MESSAGE, "other", 1)
    posted = client.post(MESSAGE, "incident", 4)
    assert isinstance(posted, Delivered)
    assert client.find(channel, "incident", 0) == Found(channel, posted.ts, 4)
    assert client.find(channel, "third", 0) is None
    assert client.find(channel, "incident", 4_102_444_800_000) is None


def test_a_look_that_fails_for_now_is_not_taken_for_absence(slack: SlackServer, config: SlackConfig) -> None:
    client, channel = SlackClient(config), slack.channel_id("flink-alerts")
    slack.fail_next("conversations.history", status=500)
    assert isinstance(client.find(channel, "incident", 0), RetryAfter)
    slack.fail_next("conversations.history", error="missing_scope")
    assert client.find(channel, "incident", 0) is None


SECRET = "xoxb-7f3a-very-secret"


@pytest.mark.parametrize("fault", [{"error": "invalid_auth"}, {"status": 500}, {"reset": True}])
def test_the_token_is_in_no_log_error_or_repr(
    slack: SlackServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: dict[str, Any]
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", SECRET)
    caplog.set_level(logging.DEBUG)
    config = SlackConfig(enabled=True, channel="flink-alerts", base_url=slack.base_url)
    client = SlackClient(config)
    slack.fail_next("chat.postMessage", **fault)
    outcome = client.post(MESSAGE, "incident", 1)
    for text in (
        caplog.text,
        repr(outcome),
        repr(config),
        repr(client),
        str(config.model_dump()),
        repr(config.token()),
    ):
        assert SECRET not in text


def test_a_token_in_the_configuration_is_refused_without_being_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        SlackConfig.model_validate({"enabled": True, "channel": "a", "token": SECRET})
    assert SECRET not in str(caught.value)


def test_a_rotated_token_file_takes_effect(slack: SlackServer, config: SlackConfig, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("xoxb-old\n")
    config = config.model_copy(update={"token_file": file})
    client = SlackClient(config)
    outcome = client.post(MESSAGE, "incident", 1)
    assert isinstance(outcome, Refused)
    file.write_text(f"{TOKEN}\n")
    assert isinstance(client.post(MESSAGE, "incident", 1), Delivered)
    file.unlink()
    outcome = client.post(MESSAGE, "incident", 1)
    assert isinstance(outcome, Refused)
    assert str(file) in outcome.reason


def test_an_address_must_be_http() -> None:
    with pytest.raises(ValidationError, match="base_url"):
        SlackConfig(base_url="slack.com/api")


def test_a_channel_is_needed_when_slack_is_on() -> None:
    with pytest.raises(ValidationError, match="channel is needed"):
        SlackConfig(enabled=True)
