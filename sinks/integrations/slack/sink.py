"""Slack as a sink: one message an incident, edited as it changes, its timeline and charts in its thread."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from sinks.contract.digest import Summary
from sinks.contract.link_templates import NO_FLINK_UI
from sinks.contract.outcome import Attachment, Delivered, Found, Outcome, Refused, RetryAfter
from sinks.contract.overview import ScheduledOverview
from sinks.contract.phrases import chart_title, ended_at, since
from sinks.contract.sink import EditingSink, MessageRef, Notification, Rate, Traits
from sinks.integrations.slack.actions.buttons import action_blocks, render_reminder
from sinks.integrations.slack.actions.socket import SocketLostError, socket_address
from sinks.integrations.slack.charts.draw import ChartRequest
from sinks.integrations.slack.charts.worker import ChartImage, Charts
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.message.blocks import Message
from sinks.integrations.slack.message.digest import render_digest
from sinks.integrations.slack.message.links import Links
from sinks.integrations.slack.message.message import render, render_plain, render_reply
from sinks.integrations.slack.message.overview import render_overview
from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.slack.thread import plan

# Slack lets a few messages come at once.
_BURST = 10
_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c636000000002000148"
    "afa4710000000049454e44ae426082"
)


class SlackSink(EditingSink):
    """One channel. `charts` may be shared by the channels of one token. `mention` returns whom a reminder mentions."""

    attachment = "put a picture into its thread"

    def __init__(
        self,
        config: SlackConfig,
        client: SlackClient,
        charts: Charts | None = None,
        external_url: str = "",
        flink_ui_url: Mapping[str, str] = NO_FLINK_UI,
        mention: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        self._config = config
        self._mention = (lambda: config.actions.mention) if mention is None else mention
        self._client = client
        self._charts = Charts(client.upload) if charts is None else charts
        self._links = Links(
            config.runbook_base_url, config.dashboard_url, config.explain_url, external_url, flink_ui_url
        )

    @property
    def traits(self) -> Traits:
        return Traits(
            can_look_up=True,
            digests=True,
            shows_marks=self._config.actions.enabled,
            min_severity=self._config.min_severity,
            post_rate=_rate(self._config.posts_per_minute),
            edit_rate=_rate(self._config.edits_per_minute),
        )

    def check(self) -> None:
        self._config.token()

    def send(self, notification: Notification) -> Outcome:
        transition = notification.transition
        outcome = self._client.post(self._message(notification), transition.incident, transition.seq)
        return self._with_attachments(notification, outcome, edited=False)

    def edit(self, notification: Notification, message: MessageRef) -> Outcome:
        content, one = self._message(notification), notification.transition
        outcome = self._client.edit(message.channel, message.ts, content, one.incident, one.seq)
        return self._with_attachments(notification, outcome, edited=True)

    def _with_attachments(self, notification: Notification, outcome: Outcome, *, edited: bool) -> Outcome:
        """A line in the thread and a chart, where they are due."""
        if notification.summary is not None or not isinstance(outcome, Delivered):
            return outcome
        transition = notification.transition
        planned = plan(
            notification.before, transition, notification.at, self._config, edited=edited, seen=notification.seen
        )
        attachments = []
        where = outcome.channel, outcome.ts
        if planned.reply:
            line = render_reply(transition, broadcast=planned.broadcast, unsilenced=planned.unsilenced)
            attachments.append(Attachment(partial(self._client.reply, *where, line, broadcast=planned.broadcast)))
        if notification.remind:
            text = render_reminder(transition, self._config.actions.remind_after, self._mention())
            attachments.append(Attachment(partial(self._client.reply, *where, text, broadcast=True)))
        if planned.chart and transition.series is not None:
            until = ended_at(transition) if transition.transition == "resolved" else None
            order = ChartRequest(
                title=chart_title(transition),
                series=transition.series,
                since=since(transition),
                until=until,
                forecast=transition.forecast if until is None else None,
            )

            def draw() -> Outcome:
                self._charts.order(order, *where)
                return outcome

            attachments.append(Attachment(draw, posts=False))
        return replace(outcome, notified=planned.notified, attachments=tuple(attachments))

    def find(self, channel: str, incident: str, since: int) -> Found | RetryAfter | None:
        return self._client.find(channel, incident, since)

    def recent(self, channel: str, since: int) -> dict[str, Found] | RetryAfter:
        return self._client.recent(channel, since)

    def close(self, seconds: float) -> None:
        """Charts that were ordered come into their threads within so many seconds."""
        self._charts.close(seconds)

    def try_attachment(self, delivered: Delivered) -> Outcome | None:
        if not self._config.charts:
            return None
        picture = ChartImage(_PIXEL, "A test of flinkwatch's pictures", "One pixel")
        outcome = self._client.upload(delivered.channel, delivered.ts, picture)
        if isinstance(outcome, Refused) and outcome.because == "setup":
            reason = "add the scope files:write and install the app again, or set sinks.slack.charts: false"
            return Refused(outcome.code, reason, "setup", outcome.failure)
        return outcome

    def try_actions(self) -> Outcome | None:
        if not self._config.actions.enabled:
            return None
        try:
            socket_address(self._config, self._client)
        except SocketLostError as error:
            return Refused(error.code, str(error), "setup", "other")
        return Delivered()

    def _message(self, notification: Notification) -> Message:
        match notification.summary:
            case Summary() as summary:
                return render_digest(summary, plain_text=notification.plain)
            case ScheduledOverview() as scheduled:
                return render_overview(scheduled, self._links.external_url, plain_text=notification.plain)
        if notification.plain:
            return render_plain(notification.transition)
        transition, marks = notification.transition, notification.marks
        extra = action_blocks(transition, marks) if self._config.actions.enabled else []
        return render(transition, self._links, notification.note, extra)


def _rate(per_minute: int) -> Rate:
    return Rate(per_minute / 60, min(_BURST, per_minute))
