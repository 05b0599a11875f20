"""`flinkwatch config init` asks for what the defaults cannot know, tries it, and writes a short configuration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml
from pydantic import BaseModel, ValidationError

from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.webhook import WebhookConfig
from sinks.kafka.access import KafkaAccess
from sinks.receivers import make_receivers
from sinks.self_test import try_receivers
from sinks.settings import Sinks
from streaming.configuration.settings import Settings
from streaming.configuration.trials import TrialError, slack_bot, topics_at
from streaming.errors import ConfigError
from streaming.terminal import echo

_HEAD = "# What differs from the defaults. `flinkwatch config docs` explains every setting.\n"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SHOWN = 30

Answers = dict[str, Any]
Tried = TypeVar("Tried")
Model = TypeVar("Model", bound=BaseModel)


class Questions:
    """Answers to questions: those of the command line first, then the person's. Without a person, the defaults."""

    def __init__(self, given: Answers, ask: bool) -> None:
        self._known = {name: value for name, value in given.items() if value}
        self._ask = ask

    def answer(self, name: str, question: str, default: str = "", choices: tuple[str, ...] = ()) -> str:
        """The answer of this name. It is the default if the question is asked again."""
        known = str(self._known.get(name, default))
        if self._ask:
            kind = click.Choice(choices, case_sensitive=False) if choices else str
            known = self._known[name] = click.prompt(question, default=known, type=kind, show_default=bool(known))
        return known.strip()

    def secret(self, name: str, question: str, default: str = "") -> Answers:
        """The setting for a secret: the file that holds it, or the environment variable, which begins with $."""
        place = self.answer(name, f"{question}: the file that holds it, or $VARIABLE", default)
        if place.startswith("$"):
            return {f"{name}_env": place.removeprefix("$")}
        return {f"{name}_file": place} if place else {}

    def until(self, attempt: Callable[[], Tried]) -> Tried:
        """The result of an attempt, which is repeated with other answers until it succeeds. Raises TrialError."""
        while True:
            try:
                return attempt()
            except TrialError as error:
                if not self._ask:
                    raise
                echo(f"{error}\nOnce more:", error=True)


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default="my.yaml", show_default=True)
@click.option("--bootstrap-servers", help="Brokers, such as kafka-1:9092,kafka-2:9092.")
@click.option("--security-protocol", type=click.Choice(_PROTOCOLS), help="Default: PLAINTEXT.")
@click.option("--sasl-mechanism", type=click.Choice(_MECHANISMS))
@click.option("--sasl-username")
@click.option("--sasl-password", help="File that holds the password, or $VARIABLE.")
@click.option("--ssl-ca-file", help="PEM file of the authorities to trust. Default: those of the system.")
@click.option("--logs", help="Topics with Flink's logs, comma-separated. Default: flink.logs.")
@click.option("--metrics", help="Topics with Flink's metrics, comma-separated. Default: flink.metrics.")
@click.option("--checkpoint", help="Directory of the job's checkpoint. Default: /var/lib/flinkwatch/checkpoint.")
@click.option("--slack-channel", help="ID of the channel for notifications.")
@click.option("--slack-token", help="File that holds the bot token, or $VARIABLE. Default: $SLACK_BOT_TOKEN.")
@click.option("--webhook", help="Address of a webhook for notifications.")
@click.option("--yes", is_flag=True, help="Ask nothing: take the options and, without them, the defaults.")
def init(out: Path, yes: bool, **given: str | None) -> None:
    """Write a configuration: ask for brokers, topics and receivers, and try each.

    Secrets stay in files or environment variables, which the configuration names. An existing file is not overwritten.
    """
    if out.exists():
        raise ConfigError(f"{out} exists already. Move it away, or choose another file with --out.")
    if yes and not given["bootstrap_servers"]:
        raise click.UsageError("--yes needs --bootstrap-servers.")
    questions = Questions({k.replace("slack_token", "token"): v for k, v in given.items()}, ask=not yes)
    access, topics = questions.until(lambda: _brokers(questions))
    kafka = questions.until(lambda: _topics(questions, topics))
    checkpoint = questions.answer("checkpoint", "Directory of the job's checkpoint", _default_checkpoint())
    document: Answers = {"kafka": {"access": access, **kafka}, "streaming": {"checkpoint": checkpoint}}
    if sinks := questions.until(lambda: _slack(questions)) or questions.until(lambda: _webhook(questions)):
        document["sinks"] = sinks
    _checked(Settings, document)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(_HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error.strerror}") from error
    echo(f"Wrote {out}. Next: flinkwatch run --config {out}")


def _brokers(questions: Questions) -> tuple[Answers, list[str]]:
    """The section `kafka.access`, and the topics of the brokers. Raises TrialError."""
    found: Answers = {"bootstrap_servers": questions.answer("bootstrap_servers", "Brokers (host:port)")}
    protocol = questions.answer("security_protocol", "Security protocol", _PROTOCOLS[0], _PROTOCOLS)
    if protocol != _PROTOCOLS[0]:
        found["security_protocol"] = protocol
    if protocol.startswith("SASL"):
        found["sasl_mechanism"] = questions.answer("sasl_mechanism", "SASL mechanism", "SCRAM-SHA-512", _MECHANISMS)
        if user := questions.answer("sasl_username", "SASL user"):
            found["sasl_username"] = user
        found |= questions.secret("sasl_password", "SASL password")
    if protocol.endswith("SSL") and (file := questions.answer("ssl_ca_file", "PEM file of the authorities, or none")):
        found["ssl_ca_file"] = file
    topics = topics_at(_checked(KafkaAccess, found))
    echo(f"Kafka answers and has {len(topics)} topics: {', '.join(topics[:_SHOWN])}{' …' * (len(topics) > _SHOWN)}")
    return found, topics


def _topics(questions: Questions, existing: list[str]) -> Answers:
    """The input topics. Raises TrialError if Kafka does not have one."""
    found = {}
    for name in ("logs", "metrics"):
        topics = questions.answer(name, f"Topics with Flink's {name}", f"flink.{name}")
        found[name] = [topic.strip() for topic in topics.split(",") if topic.strip()]
    missing = [topic for topics in found.values() for topic in topics if topic not in existing]
    if missing:
        raise TrialError(f"Kafka has no topic {', '.join(missing)}. Your log shipper and metrics agent write them.")
    return found


def _slack(questions: Questions) -> Answers:
    """The section `sinks` with Slack, empty without a channel. Raises TrialError."""
    channel = questions.answer("slack_channel", "ID of the Slack channel, such as C0123456789 (empty: no Slack)")
    if not channel:
        return {}
    token = questions.secret("token", "Slack's bot token", "$SLACK_BOT_TOKEN")
    slack = {"enabled": True, "channel": channel, **token}
    echo(f"Slack knows the token: {slack_bot(_checked(SlackConfig, slack))}")
    return {"slack": slack}


def _webhook(questions: Questions) -> Answers:
    """The section `sinks` with a webhook, empty without its address. Raises TrialError."""
    url = questions.answer("webhook", "Address of a webhook (empty: none)")
    if not url:
        return {}
    sinks = {"webhook": {"enabled": True, "url": url}}
    _checked(WebhookConfig, sinks["webhook"])
    for result in try_receivers(make_receivers(_checked(Sinks, sinks))):
        if result.ok is False:
            raise TrialError(f"{result.receiver}: {result.text}")
    echo("The webhook took a test incident.")
    return sinks


def _checked(model: type[Model], values: Answers) -> Model:
    """The section of these values. Raises TrialError that names each wrong one, without its value."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors())
        raise TrialError("\n".join(line.removeprefix(": ") for line in lines)) from None


def _default_checkpoint() -> str:
    found: str = Settings().streaming.checkpoint
    return found
