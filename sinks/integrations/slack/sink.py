"""Slack as a sink: one message an incident, edited as it changes, its timeline and charts in its thread."""

from sinks.contract.notified import Told
from sinks.contract.outcome import Delivered, Found, Outcome, Refused, RetryAfter
from sinks.contract.sink import Extra, FollowUp, Notice, Rate, Sink, Standing, Traits
from sinks.integrations.slack.charts.draw import ChartRequest
from sinks.integrations.slack.charts.worker import ChartImage, Charts
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.message.blocks import Message
from sinks.integrations.slack.message.digest import render_digest
from sinks.integrations.slack.message.links import Links
from sinks.integrations.slack.message.message import render, render_plain, render_reply
from sinks.integrations.slack.message.phrases import chart_title, ended_at, since
from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.slack.thread import plan

# Slack lets a few messages come at once.
_BURST = 10
_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c636000000002000148"
    "afa4710000000049454e44ae426082"
)


class SlackSink(Sink):
    """One channel; see `sinks.contract.sink.Sink`. `charts` may be shared by the channels of one token."""

    def __init__(self, config: SlackConfig, client: SlackClient, charts: Charts | None = None) -> None:
        self._config = config
        self._client = client
        self._charts = Charts(client) if charts is None else charts
        self._links = Links(config.runbook_base_url, config.dashboard_url, config.explain_url)

    @property
    def traits(self) -> Traits:
        """Messages are edited and can be looked up; twice the same would be noise."""
        return Traits(
            edits=True,
            extra="put a picture into its thread",
            looks_up=True,
            repeats_harmless=False,
            digests=True,
            min_severity=self._config.min_severity,
            posts=_rate(self._config.posts_per_minute),
            changes=_rate(self._config.edits_per_minute),
        )

    def check(self) -> None:
        """Raises SecretError when there is no token."""
        self._config.token()

    def send(self, notice: Notice, standing: Standing | None) -> Outcome:
        """A new message, or the one that stands with new content."""
        message, transition = self._message(notice), notice.transition
        if standing is None:
            return self._client.post(message, transition.incident, transition.seq)
        return self._client.edit(standing.channel, standing.ts, message, transition.incident, transition.seq)

    def follow_up(
        self, notice: Notice, delivered: Delivered, before: Told | None, now: int, *, edited: bool
    ) -> FollowUp:
        """A line in the thread and a chart, where they are due."""
        if notice.summary is not None:
            return FollowUp()
        transition = notice.transition
        planned = plan(before, transition, now, self._config, edited=edited)
        extras = []
        if planned.reply:
            line = render_reply(transition, broadcast=planned.broadcast, unsilenced=planned.unsilenced)

            def say() -> Outcome:
                return self._client.reply(delivered.channel, delivered.ts, line, broadcast=planned.broadcast)

            extras.append(Extra(say))
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
                self._charts.order(order, delivered.channel, delivered.ts)
                return delivered

            extras.append(Extra(draw, posts=False))
        return FollowUp(planned.told, tuple(extras))

    def find(self, channel: str, incident: str, since: int) -> Found | RetryAfter | None:
        """Our message of `incident` in channel ID `channel`; see `sinks.contract.sink.Sink`."""
        return self._client.find(channel, incident, since)

    def recent(self, channel: str, since: int) -> dict[str, Found] | RetryAfter:
        """All messages of ours in channel ID `channel`; see `sinks.contract.sink.Sink`."""
        return self._client.recent(channel, since)

    def close(self, seconds: float) -> None:
        """Charts that were ordered come into their threads within so many seconds."""
        self._charts.close(seconds)

    def try_extra(self, delivered: Delivered) -> Outcome | None:
        """A picture of one pixel into the thread."""
        if not self._config.charts:
            return None
        picture = ChartImage(_PIXEL, "A test of flinkwatch's pictures", "One pixel")
        outcome = self._client.upload(delivered.channel, delivered.ts, picture)
        if isinstance(outcome, Refused) and outcome.because == "setup":
            reason = "add the scope files:write and install the app again, or set sinks.slack.charts: false"
            return Refused(outcome.code, reason, "setup", outcome.failure)
        return outcome

    def _message(self, notice: Notice) -> Message:
        if notice.summary is not None:
            return render_digest(notice.summary, plain_text=notice.plain)
        if notice.plain:
            return render_plain(notice.transition)
        return render(notice.transition, self._links, notice.note)


def _rate(per_minute: int) -> Rate:
    return Rate(per_minute / 60, min(_BURST, per_minute))
