"""Makes the receivers that the settings ask for."""

import re
import time
from collections.abc import Collection

from sinks.contract.receiver import Receiver
from sinks.contract.sink import Sink
from sinks.in_force import SinksInForce
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


def make_receivers(
    sinks: Sinks, in_force: SinksInForce | None = None, existing: Collection[str] = ()
) -> tuple[Receiver, ...]:
    """One for each enabled sink and for each channel that a route or an overview names, without the `existing` ones.

    They ask `in_force` for routes, quiet hours and mentions; without it these stay as in `sinks`.
    """
    current = SinksInForce(sinks) if in_force is None else in_force
    names = (name for name in sinks.receivers() if name not in existing)
    return tuple(_receiver(name, sinks, current) for name in names)


def _receiver(name: str, sinks: Sinks, in_force: SinksInForce) -> Receiver:
    sink, channel = _sink(name, sinks, in_force)
    return Receiver(
        name=name,
        sink=sink,
        channel=channel if _CHANNEL_ID.fullmatch(channel) else "",
        digest_above=sinks.teams.digest_above if name.partition(":")[0] == TEAMS else sinks.slack.digest_above,
        overviews=tuple(schedule for schedule in sinks.overviews if name in schedule.to),
        remind_after=sinks.slack.actions.remind_after,
        is_target=lambda transition: name in in_force.now.routing.targets(transition, in_force.now.enabled()),
        quiet_until=lambda transition, now: in_force.now.routing.quiet_until(name, transition, now),
        routes_version=lambda: in_force.version,
    )


def _sink(name: str, sinks: Sinks, in_force: SinksInForce) -> tuple[Sink, str]:
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
    slack = SlackSink(
        config,
        SlackClient(config),
        external_url=external_url,
        flink_ui_url=flink_ui,
        mention=lambda: in_force.now.slack.actions.mention,
    )
    return slack, channel


def _teams(sinks: Sinks, conversation: str) -> Sink:
    config = sinks.teams.model_copy(update={"conversation": conversation or sinks.teams.conversation})
    if config.mode == "workflow":
        return TeamsWorkflowSink(config, sinks.web.external_url, sinks.flink_ui_url)
    client = TeamsClient(config, BotToken(config, time.monotonic))
    return TeamsBotSink(config, client, sinks.web.external_url, sinks.flink_ui_url)
