"""`flinkwatch sinks test`: what it sends, and that it says what is wrong in words a person can act on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sinks.integrations.slack.charts.worker import ChartImage
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.message.blocks import Message
from sinks.integrations.slack.settings import SlackConfig
from streaming.cli.main import cli
from tests.fake_slack.server import APP_TOKEN, TOKEN, SlackServer
from tests.fake_teams.server import SECRET, TeamsServer
from tests.unit.sinks.receiver import Receiver

MANIFEST = Path(__file__).parents[4] / "conf" / "slack-app-manifest.yaml"


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer(channels=("flink-alerts", "oncall")) as server:
        yield server


def run(folder: Path, *arguments: str, **sinks: Any) -> Result:
    file = folder / "flinkwatch.yaml"
    file.write_text(yaml.safe_dump({"sinks": sinks}))
    return CliRunner().invoke(cli, ["sinks", "test", "--config", str(file), *arguments])


def slack_section(server: SlackServer, **changes: Any) -> dict[str, Any]:
    channel = server.channel_id("flink-alerts")
    return {"enabled": True, "channel": channel, "base_url": server.base_url, "timeout": "1s", **changes}


def test_working_receivers_are_reported_and_leave_a_resolved_test_message(slack: SlackServer, tmp_path: Path) -> None:
    result = run(tmp_path, slack=slack_section(slack))
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.output.splitlines()] == ["ok"] * 4
    (parent,) = slack.parents()
    assert "Resolved" in parent.text
    assert "test" in parent.text


def test_a_chat_that_cannot_look_up_messages_gets_no_advice_for_slack(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEAMS_CLIENT_SECRET", SECRET)
    with TeamsServer() as teams:
        result = run(tmp_path, teams=teams.settings)
        assert teams.methods() == ["post", "edit"]
    assert result.output == "ok       teams: open a test incident: ok\nok       teams: resolve it: ok\n"


def test_every_receiver_is_tried_even_if_one_fails(slack: SlackServer, tmp_path: Path) -> None:
    with Receiver() as receiver:
        result = run(
            tmp_path,
            slack=slack_section(slack),
            webhook={"enabled": True, "url": receiver.url},
            routing={"routes": [{"to": ["slack:nowhere", "slack:oncall", "webhook"]}], "default": []},
        )
        assert len(receiver.received) == 2
    assert result.exit_code == 1
    refused = "refused (channel_not_found): the channel does not exist or is private"
    assert f"FAILED   slack:nowhere: open a test incident: {refused}" in result.output
    assert "ok       slack:oncall: resolve it: ok" in result.output
    assert "ok       webhook: resolve it: ok" in result.output


@pytest.mark.parametrize(
    ("scope", "status", "says"),
    [
        ("chat:write", 1, "chat:write"),
        ("channels:history", 0, "missing  slack: a message cannot be looked up: add the scope channels:history"),
        ("files:write", 0, "add the scope files:write"),
    ],
)
def test_a_missing_scope_is_named(slack: SlackServer, tmp_path: Path, scope: str, status: int, says: str) -> None:
    slack.take_scope(scope)
    result = run(tmp_path, slack=slack_section(slack))
    assert (result.exit_code, says in result.output) == (status, True), result.output


def test_a_bot_that_is_not_in_the_channel_is_to_be_invited(slack: SlackServer, tmp_path: Path) -> None:
    slack.remove_bot("flink-alerts")
    result = run(tmp_path, slack=slack_section(slack))
    assert result.exit_code == 1
    assert "/invite" in result.output


def test_a_wrong_token_and_a_missing_one_have_different_errors(
    slack: SlackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-wrong")
    assert "the token is not valid" in run(tmp_path, slack=slack_section(slack)).output
    monkeypatch.delenv("SLACK_BOT_TOKEN")
    result = run(tmp_path, slack=slack_section(slack))
    assert (result.exit_code, "SLACK_BOT_TOKEN is not set" in result.output) == (1, True)


def test_an_address_without_a_listener_is_reported(slack: SlackServer, tmp_path: Path) -> None:
    result = run(tmp_path, webhook={"enabled": True, "url": "http://127.0.0.1:9/in"})
    assert result.exit_code == 1
    assert "cannot connect" in result.output
    assert "check the address" in result.output


def test_a_refused_signature_is_reported(slack: SlackServer, tmp_path: Path) -> None:
    with Receiver() as receiver:
        receiver.answers.append((401, {}))
        result = run(tmp_path, webhook={"enabled": True, "url": receiver.url})
    assert "check token and signature" in result.output


def test_a_channel_name_works_and_its_id_is_shown(slack: SlackServer, tmp_path: Path) -> None:
    result = run(tmp_path, slack=slack_section(slack, channel="flink-alerts"))
    assert result.exit_code == 0
    assert slack.channel_id("flink-alerts") in result.output


@pytest.mark.parametrize(("token", "says"), [(APP_TOKEN, "ok"), ("xapp-old", "invalid_auth: set the app-level token")])
def test_the_connection_for_buttons_is_tried(
    slack: SlackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, says: str
) -> None:
    monkeypatch.setenv("SLACK_APP_TOKEN", token)
    actions = {"enabled": True, "allowed": ["*"]}
    result = run(tmp_path, slack=slack_section(slack, actions=actions))
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.output.splitlines() if "buttons in messages" in line)
    assert says in line


def test_a_single_receiver_can_be_tried(slack: SlackServer, tmp_path: Path) -> None:
    with Receiver() as receiver:
        sections = {"slack": slack_section(slack), "webhook": {"enabled": True, "url": receiver.url}}
        assert run(tmp_path, "--only", "webhook", **sections).exit_code == 0
        assert slack.calls == []
        wrong = run(tmp_path, "--only", "mail", **sections)
    assert wrong.exit_code != 0
    assert "Enabled receivers: slack, webhook" in str(wrong.exception)


def test_without_any_sink_there_is_nothing_to_test(tmp_path: Path) -> None:
    result = run(tmp_path, slack={"enabled": False})
    assert "no receiver is enabled" in str(result.exception)


NEEDED = {
    "chat.postMessage": {"chat:write"},
    "chat.update": {"chat:write"},
    "conversations.history": {"channels:history", "groups:history"},
    "files.getUploadURLExternal": {"files:write"},
    "files.completeUploadExternal": {"files:write"},
    "usergroups.users.list": {"usergroups:read"},
}
"""What Slack's reference says of each method: any of these scopes, according to the kind of channel."""


def test_the_manifest_asks_for_what_the_client_needs_and_nothing_else(slack: SlackServer) -> None:
    """Every call of the client is made once; the stand-in notes the methods."""
    channel = slack.channel_id("flink-alerts")
    client = SlackClient(SlackConfig(enabled=True, channel=channel, base_url=slack.base_url))
    client.post(Message("text", []), "i", 1)
    ts = slack.parents()[0].ts
    client.edit(channel, ts, Message("text", []), "i", 2)
    client.reply(channel, ts, Message("line", []))
    client.upload(channel, ts, ChartImage(b"png", "title", "alt"))
    client.find(channel, "i", 0)
    client.recent(channel, 0)
    client.ask("usergroups.users.list", {"usergroup": "S0ONCALL"})
    public = {name for name in vars(SlackClient) if not name.startswith("_")}
    assert public == {"post", "edit", "reply", "upload", "ask", "find", "recent"}, "a new call belongs into this test"
    called = {call.method for call in slack.calls if "." in call.method}
    manifest = yaml.safe_load(MANIFEST.read_text())
    scopes = set(manifest["oauth_config"]["scopes"]["bot"])
    # No method needs `commands`, but Slack's command does.
    assert set().union(*(NEEDED[method] for method in called)) == scopes - {"commands"}
