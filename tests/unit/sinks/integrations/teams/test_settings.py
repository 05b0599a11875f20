"""The settings of Teams: what cannot work is refused at start, with what is allowed, and no secret is shown."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sinks.integrations.teams.settings import TeamsConfig
from sinks.secret import SecretError
from sinks.settings import Sinks
from tests.fake_teams.server import APP_ID, CONVERSATION

MANIFEST = Path(__file__).parents[5] / "conf" / "teams-app-manifest.json"
BOT: dict[str, Any] = {"enabled": True, "app_id": APP_ID, "conversation": CONVERSATION}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"enabled": True}, "app_id and conversation needed when enabled with mode: bot"),
        (BOT | {"conversation": ""}, "conversation needed"),
        (BOT | {"conversation": "19:a@thread.tacv2;messageid=1"}, "pattern"),
        (BOT | {"mode": "webhook"}, "'bot' or 'workflow'"),
        (BOT | {"tenant": "a/b"}, "pattern"),
        (BOT | {"dashboard_url": "https://g/{jobb}"}, "unknown placeholder {jobb}; allowed: {cluster}, {job}"),
        (BOT | {"service_url": "smba.example.org"}, "pattern"),
    ],
)
def test_what_cannot_work_is_an_error_that_names_what_is_wrong(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as error:
        TeamsConfig.model_validate(settings)
    assert why in str(error.value)


def test_a_workflow_needs_no_names_of_a_bot() -> None:
    assert TeamsConfig(enabled=True, mode="workflow").enabled


@pytest.mark.parametrize("url", ["workflow.example.org/x?sig=s3cret", "ftp://a/?sig=s3cret", "https://a b/s3cret"])
def test_an_address_of_a_workflow_that_is_none_is_refused_and_not_shown(monkeypatch: Any, url: str) -> None:
    monkeypatch.setenv("TEAMS_WORKFLOW_URL", url)
    with pytest.raises(SecretError, match=r"workflow_url: it is not an http\(s\) address") as error:
        TeamsConfig(mode="workflow").workflow_url()
    assert "s3cret" not in str(error.value)


def test_secrets_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "url").write_text("https://example.org/x?sig=1\n")
    config = TeamsConfig(client_secret_file=tmp_path / "secret", workflow_url_file=tmp_path / "url")
    assert (config.client_secret(), config.workflow_url()) == ("s3cret", "https://example.org/x?sig=1")


@pytest.mark.parametrize(
    ("mode", "to", "allowed"),
    [
        ("bot", "teams:19:oncall@thread.tacv2", True),
        ("bot", "teams:", False),
        ("workflow", "teams", True),
        ("workflow", "teams:19:oncall@thread.tacv2", False),
    ],
)
def test_routes_name_other_conversations_of_a_bot_only(mode: str, to: str, allowed: bool) -> None:
    sinks = {"teams": BOT | {"mode": mode}, "routing": {"default": [to]}}
    if allowed:
        assert Sinks.model_validate(sinks).enabled() == ("teams",)
        return
    with pytest.raises(ValidationError, match="is not an enabled receiver; enabled: teams") as error:
        Sinks.model_validate(sinks)
    assert ("teams:<conversation>" in str(error.value)) == (mode == "bot")


def test_the_manifest_is_of_a_bot_that_only_sends() -> None:
    manifest = json.loads(MANIFEST.read_text())
    (bot,) = manifest["bots"]
    assert bot["botId"] == manifest["id"] == "YOUR-APP-ID"
    assert (bot["isNotificationOnly"], bot["scopes"]) == (True, ["team", "groupChat"])
    assert "permissions" not in manifest
