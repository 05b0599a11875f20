"""`flinkwatch config init`: asks, tries what it is given, and writes a short file without secrets."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sinks.integrations.slack.settings import SlackConfig
from sinks.kafka.access import KafkaAccess
from streaming.cli import config_init
from streaming.cli.main import cli
from streaming.configuration.settings import load
from streaming.configuration.trials import TrialError, slack_bot
from streaming.errors import ConfigError
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.receiver import Receiver

SERVERS = ("--bootstrap-servers", "kafka-1:9092")


@pytest.fixture(autouse=True)
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was tried, in order. Brokers at port 1 do not answer, others do; Slack knows every token."""
    found: list[Any] = []

    def topics(access: KafkaAccess) -> list[str]:
        found.append(access)
        if access.bootstrap_servers.endswith(":1"):
            raise TrialError(f"no Kafka broker answers at {access.bootstrap_servers}")
        return ["flink.logs", "flink.metrics", "other"]

    def bot(config: SlackConfig) -> str:
        found.append(config)
        return "flinkwatch in the workspace Acme"

    monkeypatch.setattr(config_init, "topics_at", topics)
    monkeypatch.setattr(config_init, "slack_bot", bot)
    return found


def init(out: Path, *options: str, answers: str = "") -> Result:
    return CliRunner().invoke(cli, ["config", "init", "--out", str(out), *options], input=answers)


def test_without_questions_the_options_and_defaults_make_a_short_valid_file(tmp_path: Path) -> None:
    out = tmp_path / "my.yaml"
    done = init(out, *SERVERS, "--slack-channel", "C1", "--slack-token", "/run/secrets/slack", "--yes")
    assert done.exit_code == 0, done.output
    assert len(out.read_text().splitlines()) <= 16
    settings = load(out, {})
    assert settings.kafka.access.bootstrap_servers == "kafka-1:9092"
    assert (settings.sinks.slack.channel, settings.sinks.slack.token_file) == ("C1", Path("/run/secrets/slack"))
    assert CliRunner().invoke(cli, ["config", "check", str(out)]).stdout == f"{out}: ok\n"


def test_what_fails_is_reported_and_asked_again(tmp_path: Path, tried: list[Any]) -> None:
    answers = ["kafka-1:1", "PLAINTEXT", "kafka-1:9092", "PLAINTEXT", "nosuch", "", "flink.logs", "", "/tmp/c", "", ""]
    done = init(tmp_path / "my.yaml", answers="\n".join([*answers, ""]))
    assert done.exit_code == 0, done.output
    assert "no Kafka broker answers at kafka-1:1\nOnce more:" in done.output
    assert "Kafka has no topic nosuch" in done.output
    assert [access.bootstrap_servers for access in tried] == ["kafka-1:1", "kafka-1:9092"]
    kafka = {"access": {"bootstrap_servers": "kafka-1:9092"}, "logs": ["flink.logs"], "metrics": ["flink.metrics"]}
    written = yaml.safe_load((tmp_path / "my.yaml").read_text())
    assert written == {"kafka": kafka, "streaming": {"checkpoint": "/tmp/c"}}


def test_a_secret_is_named_and_never_written(tmp_path: Path, tried: list[Any]) -> None:
    out = tmp_path / "my.yaml"
    sasl = ("--security-protocol", "SASL_SSL", "--sasl-username", "ann", "--sasl-password", "$KAFKA_PASSWORD")
    done = init(out, *SERVERS, *sasl, "--slack-channel", "C1", "--yes")
    assert done.exit_code == 0, done.output
    access, slack = tried
    assert (access.sasl_mechanism, access.sasl_password_env) == ("SCRAM-SHA-512", "KAFKA_PASSWORD")
    assert slack.token_env == "SLACK_BOT_TOKEN"
    assert load(out, {}).kafka.access == access


def test_without_questions_the_first_failure_ends_it_and_nothing_is_written(tmp_path: Path) -> None:
    done = init(tmp_path / "my.yaml", "--bootstrap-servers", "kafka-1:1", "--yes")
    assert isinstance(done.exception, TrialError)
    done = init(tmp_path / "my.yaml", *SERVERS, "--logs", "a,flink.logs,b", "--yes")
    assert "Kafka has no topic a, b" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_not_overwritten(tmp_path: Path, tried: list[Any]) -> None:
    (tmp_path / "my.yaml").write_text("mine")
    done = init(tmp_path / "my.yaml", *SERVERS, "--yes")
    assert isinstance(done.exception, ConfigError)
    assert ((tmp_path / "my.yaml").read_text(), tried) == ("mine", [])


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    done = init(tmp_path / "nosuch" / "my.yaml", *SERVERS, "--yes")
    assert str(done.exception) == f"{tmp_path}/nosuch/my.yaml cannot be written: No such file or directory"


def test_brokers_are_needed_without_questions(tmp_path: Path) -> None:
    assert init(tmp_path / "my.yaml", "--yes").exit_code == 2


def test_wrong_values_are_named_without_the_values(tmp_path: Path) -> None:
    done = init(tmp_path / "my.yaml", *SERVERS, "--security-protocol", "SASL_SSL", "--yes")
    assert str(done.exception) == "sasl_username is needed with security_protocol SASL_SSL"
    done = init(tmp_path / "my.yaml", "--bootstrap-servers", "s3cret", "--yes")
    assert str(done.exception).startswith("bootstrap_servers: must be host:port")


def test_a_webhook_gets_a_test_incident(tmp_path: Path) -> None:
    with Receiver() as receiver:
        done = init(tmp_path / "my.yaml", *SERVERS, "--webhook", f"{receiver.url}/hook", "--yes")
        assert done.exit_code == 0, done.output
        assert [one.json()["transition"]["transition"] for one in receiver.received] == ["opened", "resolved"]
    assert load(tmp_path / "my.yaml", {}).sinks.webhook.enabled


def test_slack_is_asked_who_the_token_belongs_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with SlackServer() as slack:
        config = SlackConfig(enabled=True, channel="C1", base_url=slack.base_url)
        monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
        assert " in the workspace " in slack_bot(config)
        monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-wrong")
        with pytest.raises(TrialError, match="does not accept the token"):
            slack_bot(config)
        monkeypatch.delenv("SLACK_BOT_TOKEN")
        with pytest.raises(TrialError, match="SLACK_BOT_TOKEN is not set"):
            slack_bot(config)
