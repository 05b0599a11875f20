"""Puts together what receives and carries out people's requests in Slack."""

from collections.abc import Callable
from functools import partial
from threading import Event

from sinks.delivery.feedback_feed import FeedbackFeed
from sinks.delivery.outbox import Clocks
from sinks.delivery.requests import Requests
from sinks.delivery.silencing import SilenceBook
from sinks.integrations.slack.actions.inbox import SlackInbox
from sinks.integrations.slack.actions.people import SlackPeople
from sinks.integrations.slack.actions.socket import SlackSocket
from sinks.integrations.slack.client import SlackClient
from sinks.kafka.clients import Clients
from sinks.kafka.topics import TopicNames
from sinks.prometheus.collector import IncidentCollector
from sinks.secret import SecretError
from sinks.settings import Sinks


class SlackActions:
    """The threads of the buttons in messages. If they are not enabled, only the one that ends silences with incidents:
    `flinkwatch silence add --incident` makes them, too.
    """

    def __init__(
        self,
        clients: Clients,
        topics: TopicNames,
        sinks: Sinks,
        board: IncidentCollector,
        incomplete: Callable[[], str | None],
    ) -> None:
        """`incomplete` gives a reason while open incidents may be missing in `board`."""
        self._config = sinks.slack
        self._enabled = sinks.slack.enabled and sinks.slack.actions.enabled
        now_ms = Clocks().now_ms
        book = SilenceBook(partial(clients.write_record, topics.config), sinks.max_silence, now_ms)
        feed = FeedbackFeed(clients, topics, board, book, incomplete)
        self.threads: dict[str, Callable[[Event], None]] = {"feedback": feed.run}
        self.remarks: dict[str, Callable[[], str | None]] = {}
        if not self._enabled:
            return
        client = SlackClient(sinks.slack)
        requests = Requests(board, book, partial(clients.write_record, topics.feedback), incomplete, now_ms)
        people = SlackPeople(sinks.slack, client)
        inbox = SlackInbox(people, lambda: socket.team, requests.perform, board.delivery)
        socket = SlackSocket(sinks.slack, client, inbox.receive, board.delivery)
        self.threads |= {"slack socket": socket.run, "slack actions": inbox.run}
        self.remarks = {"feedback": feed.problem, "slack actions": socket.problem}

    def check(self) -> None:
        """Raises SecretError without the app-level token."""
        if self._enabled:
            try:
                self._config.actions.app_token()
            except SecretError as error:
                raise SecretError(f"sinks.slack.actions.{error}") from None
