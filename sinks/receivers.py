"""Makes the receivers that the settings ask for."""

import re
from collections.abc import Collection
from functools import partial

from sinks.contract.receiver import Receiver
from sinks.contract.sink import Sink
from sinks.in_force import SinksInForce
from sinks.integrations.alertmanager import AlertmanagerSink
from sinks.integrations.pagerduty import PagerDutySink
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.sink import SlackSink
from sinks.integrations.webhook import WebhookSink
from sinks.settings import Sinks

_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{8,}")


def make_receivers(
    sinks: Sinks, in_force: SinksInForce | None = None, existing: Collection[str] = ()
) -> tuple[Receiver, ...]:
    """One for each enabled sink and for each Slack channel that a route names, without the `existing` ones.

    They ask `in_force` for routes, quiet hours and mentions; without it these stay as in `sinks`.
    """
    current = SinksInForce(sinks) if in_force is None else in_force
    names = (name for name in sinks.routing.receivers(sinks.enabled()) if name not in existing)
    return tuple(_receiver(name, sinks, current) for name in names)


def _receiver(name: str, sinks: Sinks, in_force: SinksInForce) -> Receiver:
    sink, channel = _sink(name, sinks, in_force)
    return Receiver(
        name=name,
        sink=sink,
        channel=channel if _CHANNEL_ID.fullmatch(channel) else "",
        digest_above=sinks.slack.digest_above,
        remind_after=sinks.slack.actions.remind_after,
        is_target=lambda transition: name in in_force.now.routing.targets(transition, in_force.now.enabled()),
        quiet_until=lambda transition, now: in_force.now.routing.quiet_until(name, transition, now),
        routes_version=lambda: in_force.version,
    )


def _sink(name: str, sinks: Sinks, in_force: SinksInForce) -> tuple[Sink, str]:
    external_url = sinks.web.external_url
    match name:
        case "webhook":
            return WebhookSink(sinks.webhook, external_url), ""
        case "alertmanager":
            return AlertmanagerSink(sinks.alertmanager, external_url), ""
        case "pagerduty":
            return PagerDutySink(sinks.pagerduty, external_url), ""
    channel = name.partition(":")[2] or sinks.slack.channel
    config = sinks.slack.model_copy(update={"channel": channel})
    mention = partial(_mention, in_force)
    return SlackSink(config, SlackClient(config), external_url=external_url, mention=mention), channel


def _mention(in_force: SinksInForce) -> tuple[str, ...]:
    return in_force.now.slack.actions.mention
