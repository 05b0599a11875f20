"""Microsoft Teams as a sink.

The bot posts one message for each incident, edits it as it changes, and adds a line to its thread. A workflow can only
post, so it gets a message for each change for which the bot would add a line.
"""

from functools import partial

import msgspec
from msgspec.structs import replace

from sinks.contract.digest import Summary
from sinks.contract.incident_links import IncidentLinks
from sinks.contract.link_templates import NO_FLINK_UI, FlinkUiUrls
from sinks.contract.notified import is_line_due, notified_state
from sinks.contract.outcome import Attachment, Delivered, Outcome, Refused
from sinks.contract.overview import ScheduledOverview
from sinks.contract.phrases import storm_title
from sinks.contract.sink import EditingSink, MessageRef, Notification, Rate, Sink, Traits
from sinks.integrations.http_post import Response, classify_failure, request
from sinks.integrations.teams.card import line_text, plain_text, render, render_digest, summary_text
from sinks.integrations.teams.client import TeamsClient
from sinks.integrations.teams.elements import Element, card, card_activity, line, run, text_activity, words
from sinks.integrations.teams.overview import overview_title, render_overview
from sinks.integrations.teams.settings import TeamsConfig
from sinks.secret import SecretError

# Teams takes 7 messages in a second and 8 in two.
_BURST = 5


class TeamsBotSink(EditingSink):
    """One conversation. What was posted cannot be looked up: a bot may not read a channel."""

    def __init__(
        self, config: TeamsConfig, client: TeamsClient, external_url: str = "", flink_ui: FlinkUiUrls = NO_FLINK_UI
    ) -> None:
        self._config = config
        self._client = client
        self._links = _incident_links(config, external_url, flink_ui)

    @property
    def traits(self) -> Traits:
        return Traits(
            digests=True,
            min_severity=self._config.min_severity,
            post_rate=_rate(self._config.posts_per_minute),
            edit_rate=_rate(self._config.edits_per_minute),
        )

    def check(self) -> None:
        self._config.client_secret()

    def send(self, notification: Notification) -> Outcome:
        return self._with_line(notification, self._client.post(self._activity(notification)), edited=False)

    def edit(self, notification: Notification, message: MessageRef) -> Outcome:
        outcome = self._client.edit(message.channel, message.ts, self._activity(notification))
        return self._with_line(notification, outcome, edited=True)

    def _with_line(self, notification: Notification, outcome: Outcome, *, edited: bool) -> Outcome:
        """A line in the thread, where one is due."""
        if notification.summary is not None or not isinstance(outcome, Delivered):
            return outcome
        before, transition, now = notification.before, notification.transition, notification.at
        in_thread = edited and not notification.seen and self._config.thread_updates and transition.silence is None
        due = in_thread and is_line_due(before, transition, now, self._config.thread_every)
        # A new message contains everything, so it counts as a line in the thread.
        replied_at = now if due or not edited else before.replied_at if before is not None else 0
        notified = replace(notified_state(transition), replied_at=replied_at)
        if not due:
            return replace(outcome, notified=notified)
        text = text_activity(line_text(transition, unsilenced=before is not None and bool(before.silence)))
        attachment = Attachment(partial(self._client.reply, outcome.channel, outcome.ts, text))
        return replace(outcome, notified=notified, attachments=(attachment,))

    def _activity(self, notification: Notification) -> Element:
        transition, site = notification.transition, self._links.external_url
        match notification.summary:
            case Summary() as summary:
                title = storm_title(summary)
                return text_activity(title) if notification.plain else card_activity(render_digest(summary), title)
            case ScheduledOverview() as scheduled:
                title, shown = overview_title(scheduled), render_overview(scheduled, site)
                return text_activity(title) if notification.plain else card_activity(shown, title)
        if notification.plain:
            return text_activity(plain_text(transition))
        return card_activity(render(transition, self._links, notification.note), summary_text(transition))


class TeamsWorkflowSink(Sink):
    """The webhook of a workflow in Power Automate."""

    def __init__(self, config: TeamsConfig, external_url: str = "", flink_ui: FlinkUiUrls = NO_FLINK_UI) -> None:
        self._config = config
        self._links = _incident_links(config, external_url, flink_ui)

    @property
    def traits(self) -> Traits:
        return Traits(
            numbers_every=self._config.thread_every,
            min_severity=self._config.min_severity,
            post_rate=_rate(self._config.posts_per_minute),
        )

    def check(self) -> None:
        self._config.workflow_url()

    def send(self, notification: Notification) -> Outcome:
        outcome = self._post(card_activity(self._card(notification)))
        if not isinstance(outcome, Delivered):
            return outcome
        return replace(outcome, notified=replace(notified_state(notification.transition), replied_at=notification.at))

    def _card(self, notification: Notification) -> Element:
        if isinstance(scheduled := notification.summary, ScheduledOverview):
            plain = card([line(words(overview_title(scheduled)))], "default", [], [])
            return plain if notification.plain else render_overview(scheduled, self._links.external_url)
        if not notification.plain:
            return render(notification.transition, self._links, notification.note)
        # A workflow takes nothing but cards.
        lines = plain_text(notification.transition).split("\n\n")
        return card([line(run(one, len(one))) for one in lines], "default", [], [])

    def _post(self, activity: Element) -> Outcome:
        try:
            url = self._config.workflow_url()
        except SecretError as error:
            return Refused("no_secret", str(error), "setup", "authError")
        headers = {"Content-Type": "application/json; charset=utf-8"}
        answer = request("POST", url, msgspec.json.encode(activity), headers, self._config.timeout / 1000)
        if not isinstance(answer, Response):
            return answer
        # The rest of the response may repeat the address, which is a secret.
        del answer.headers["Location"]
        return Delivered() if answer.ok else classify_failure(answer._replace(body=b""))


def _incident_links(config: TeamsConfig, external_url: str, flink_ui: FlinkUiUrls) -> IncidentLinks:
    return IncidentLinks(config.runbook_base_url, config.dashboard_url, config.explain_url, external_url, flink_ui)


def _rate(per_minute: int) -> Rate:
    return Rate(per_minute / 60, min(_BURST, per_minute))
