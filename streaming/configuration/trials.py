"""Tries what a configuration names: a real connection to the brokers, and a call to Slack."""

from contextlib import closing

from kafka.errors import KafkaError

from sinks.contract.outcome import Refused, RetryAfter, Unknown
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.settings import SlackConfig
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explain
from sinks.secret import SecretError
from streaming.errors import UserError

_CONNECT_MS = 10_000


class TrialError(UserError):
    """What was tried does not work; the message says why and what to check."""


def topics_at(access: KafkaAccess) -> list[str]:
    """The names of the topics that the brokers have, without Kafka's own. Raises TrialError."""
    try:
        with closing(clients.admin(access, connect_ms=_CONNECT_MS)) as admin:
            return sorted(name for name in admin.list_topics() if not name.startswith("__"))
    except (KafkaError, SecretError) as error:
        raise TrialError(explain(access, error)) from error


def slack_bot(config: SlackConfig) -> str:
    """The name of the bot and of its workspace, as Slack knows the token. Raises TrialError."""
    try:
        config.token()
    except SecretError as error:
        raise TrialError(str(error)) from error
    answer = SlackClient(config).ask("auth.test", {})
    if isinstance(answer, Refused | RetryAfter | Unknown):
        raise TrialError(f"Slack does not accept the token: {answer.reason}")
    return f"{answer.get('user', 'the bot')} in the workspace {answer.get('team', '')}"
