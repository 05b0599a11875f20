"""Who may read the site: host names against DNS rebinding, token and password."""

import base64
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sinks.secret import SecretError
from sinks.web.site.guard import allowed_names, check_secrets, host_problem, may_read
from sinks.web.site.settings import WebConfig

CONFIG = WebConfig(external_url="https://Ops.example.org:8443/flinkwatch", allowed_hosts=("flinkwatch.monitoring.svc",))
NAMES = allowed_names(CONFIG, "listen.example.org")


def headers(**given: str) -> Message:
    message = Message()
    for name, value in given.items():
        message[name] = value
    return message


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:9108",
        "ops.example.org",
        "ops.example.org.",
        "ops.example.org:443",
        "flinkwatch.monitoring.svc:9108",
        "listen.example.org",
        "127.0.0.1:9108",
        "10.1.2.3",
        "[::1]:9108",
        "[fe80::1]",
    ],
)
def test_addresses_and_known_names_are_allowed(host: str) -> None:
    assert host_problem(headers(Host=host), NAMES) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "ops.example.org.evil.example",
        "127.0.0.1.evil.example",
        "",
        "[::1",
        ":80",
    ],
)
def test_a_foreign_name_is_refused(host: str) -> None:
    assert host_problem(headers(Host=host), NAMES) is not None


def test_a_request_without_a_host_or_with_two_is_refused() -> None:
    assert host_problem(Message(), NAMES) is not None
    twice = headers(Host="localhost")
    twice["Host"] = "evil.example"
    assert host_problem(twice, NAMES) is not None


@given(st.text())
def test_any_host_is_judged(host: str) -> None:
    message = Message()
    message.add_header("Host", host.replace("\n", "").replace("\r", ""))
    host_problem(message, NAMES)


def basic(text: str) -> Message:
    return headers(Authorization=f"Basic {base64.b64encode(text.encode()).decode()}")


@pytest.fixture
def locked(tmp_path: Path) -> WebConfig:
    token, password = tmp_path / "token", tmp_path / "password"
    token.write_text("t0ken\n")
    password.write_text("pässword: with colon\n")
    return WebConfig(token_file=token, password_file=password, user="ann")


def test_without_a_secret_everyone_may_read() -> None:
    assert may_read(Message(), WebConfig())


def test_the_token_or_the_password_is_needed(locked: WebConfig) -> None:
    assert may_read(headers(Authorization="Bearer t0ken"), locked)
    assert may_read(headers(Authorization="bearer  t0ken "), locked)
    assert may_read(basic("ann:pässword: with colon"), locked)
    refused = [
        Message(),
        headers(Authorization="Bearer"),
        headers(Authorization="Bearer t0ken2"),
        headers(Authorization="Bearer T0KEN"),
        headers(Authorization="Token t0ken"),
        headers(Authorization="Basic t0ken"),
        headers(Authorization="Basic ä"),
        basic("ann:"),
        basic("bob:pässword: with colon"),
        basic("ann:t0ken"),
        headers(Authorization="Bearer pässword: with colon"),
    ]
    assert [may_read(one, locked) for one in refused] == [False] * len(refused)


def test_a_token_does_not_serve_as_password_where_there_is_only_one(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    assert not may_read(basic("flinkwatch:s"), WebConfig(token_file=secret))
    assert not may_read(headers(Authorization="Bearer s"), WebConfig(password_file=secret))


def test_a_rotated_secret_takes_effect_and_a_lost_one_locks_everyone_out(locked: WebConfig) -> None:
    assert locked.token_file is not None
    locked.token_file.write_text("new")
    assert may_read(headers(Authorization="Bearer new"), locked)
    assert not may_read(headers(Authorization="Bearer t0ken"), locked)
    locked.token_file.unlink()
    with pytest.raises(SecretError, match="token_file: cannot read"):
        may_read(headers(Authorization="Bearer new"), locked)


def test_a_start_names_the_secret_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SITE_PASSWORD", raising=False)
    with pytest.raises(SecretError, match="password_env: environment variable SITE_PASSWORD is not set"):
        check_secrets(WebConfig(password_env="SITE_PASSWORD"))
    check_secrets(WebConfig())


@pytest.mark.parametrize(
    "setting",
    [
        {"external_url": "ops.example.org"},
        {"external_url": "https://"},
        {"external_url": "https://ops.example.org/?x=1"},
        {"external_url": "https://ann:pw@ops.example.org"},
        {"external_url": "javascript:alert(1)"},
        {"external_url": "https://ops.example.org/<script>"},
        {"allowed_hosts": ["http://a"]},
        {"allowed_hosts": ["*"]},
        {"user": "a:b"},
        {"retention": "1s"},
    ],
)
def test_settings_that_cannot_work_are_refused_at_start(setting: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WebConfig.model_validate(setting)


def test_the_path_of_the_external_address_is_the_prefix() -> None:
    assert (CONFIG.prefix, WebConfig(external_url="https://a/").prefix, WebConfig().prefix) == ("/flinkwatch", "", "")
