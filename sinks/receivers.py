"""Makes the receivers that the settings ask for."""

import re
import time
from functools import partial

from sinks.contract.receiver import Receiver
from sinks.contract.sink import Sink
from sinks.integrations.alertmanager import AlertmanagerSink
from sinks.integrations.pagerduty import PagerDutySink
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.sink import SlackSink
from sinks.integrations.teams.client import TeamsClient
from sinks.integrations.teams.sink import TeamsBotSink, TeamsWorkflowSink
from sinks.integrations.teams.token import BotToken
from sinks.integrations.webhook import WebhookSink
from sinks.settings import TEAMS, Sinks

_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{8,}")


def make_receivers(sinks: Sinks) -> tuple[Receiver, ...]:
    """One for each enabled sink and for each channel that a route or an overview names."""
    return tuple(_receiver(name, sinks) for name in sinks.receivers())


def _receiver(name: str, sinks: Sinks) -> Receiver:
    sink, channel = _sink(name, sinks)
    return Receiver(
        name=name,
        sink=sink,
        channel=channel if _CHANNEL_ID.fullmatch(channel) else "",
        digest_above=sinks.teams.digest_above if name.partition(":")[0] == TEAMS else sinks.slack.digest_above,
        overviews=tuple(schedule for schedule in sinks.overviews if name in schedule.to),
        remind_after=sinks.slack.actions.remind_after,
        is_target=lambda transition: name in sinks.routing.targets(transition, sinks.enabled()),
        quiet_until=partial(sinks.routing.quiet_until, name),
    )


def _sink(name: str, sinks: Sinks) -> tuple[Sink, str]:
    external_url, flink_ui = sinks.web.external_url, sinks.flink_ui_url
    match name:
        case "webhook":
            return WebhookSink(sinks.webhook, external_url, flink_ui), ""
        case "alertmanager":
            return AlertmanagerSink(sinks.alertmanager, external_url), ""
        case "pagerduty":
            return PagerDutySink(sinks.pagerduty, external_url), ""
    kind, _, channel = name.partition(":")
    if kind == TEAMS:
        return _teams(sinks, channel), ""
    channel = channel or sinks.slack.channel
    config = sinks.slack.model_copy(update={"channel": channel})
    return SlackSink(config, SlackClient(config), external_url=external_url, flink_ui_url=flink_ui), channel


def _teams(sinks: Sinks, conversation: str) -> Sink:
    config = sinks.teams.model_copy(update={"conversation": conversation or sinks.teams.conversation})
    if config.mode == "workflow":
        return TeamsWorkflowSink(config, sinks.web.external_url, sinks.flink_ui_url)
    client = TeamsClient(config, BotToken(config, time.monotonic))
    return TeamsBotSink(config, client, sinks.web.external_url, sinks.flink_ui_url)
