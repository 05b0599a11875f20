"""Takes envelopes from the socket to those who carry them out: at most so many wait, each counts once."""

import queue
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Event
from typing import Any

import structlog

from sinks.contract.action_request import ActionError, ActionRequest
from sinks.contract.outcome import Delivered
from sinks.integrations.slack.actions.envelope import EnvelopeContent, EnvelopeError, read_envelope
from sinks.integrations.slack.actions.people import SlackPeople
from sinks.prometheus.delivery_metrics import DeliveryMetrics

log = structlog.get_logger()

Perform = Callable[[ActionRequest], str]
"""Carries out a request and returns the text for the person, empty for none. Raises ActionError."""

_WAITING_MOST = 100
_REMEMBERED = 1_000
_POLL_S = 0.5
_FAILED = "flinkwatch could not do this; its log says why. Try again in a minute."
_OTHER_WORKSPACE = "This comes from another workspace than the one that flinkwatch is installed in."


class SlackInbox:
    """`receive` may be called from any thread; `run` has one of its own."""

    def __init__(
        self, people: SlackPeople, team: Callable[[], str], perform: Perform, metrics: DeliveryMetrics
    ) -> None:
        self._people, self._team, self._perform, self._metrics = people, team, perform, metrics
        self._waiting: queue.Queue[tuple[str, Any, int]] = queue.Queue(_WAITING_MOST)
        self._done: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def receive(self, kind: str, payload: Any) -> None:
        """Keeps an envelope for `run`. With too many it is dropped, and the person sees that nothing has changed."""
        try:
            self._waiting.put_nowait((kind, payload, int(time.time() * 1000)))
        except queue.Full:
            self._count("unknown", "failed")
            log.warning("an action in Slack was dropped, too many wait", most=_WAITING_MOST)

    def run(self, stop: Event) -> None:
        while not stop.is_set():
            try:
                kind, payload, at = self._waiting.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            try:
                self._handle(kind, payload, at)
            except Exception:
                # The outer edge of one envelope.
                self._count("unknown", "failed")
                log.exception("an action in Slack failed")

    def _handle(self, kind: str, payload: Any, at: int) -> None:
        try:
            asked = read_envelope(kind, payload, at)
        except EnvelopeError as error:
            self._count("unknown", "invalid")
            log.warning("an action in Slack cannot be read", reason=str(error))
            return
        if asked is None:
            return
        wish = asked.request.wish if asked.request is not None else "unknown"
        if asked.request is not None and asked.request.key() in self._done:
            self._count(wish, "duplicate")
            return
        try:
            text, result = self._carry_out(asked), "done"
        except ActionError as error:
            text, result = str(error), "refused"
        except Exception:
            log.exception("an action in Slack failed", action=wish)
            text, result = _FAILED, "failed"
        self._count(wish, result)
        outcome = self._people.answer(asked.answer_to, text) if text else None
        if outcome is not None and not isinstance(outcome, Delivered):
            log.warning("an answer to an action in Slack did not arrive", action=wish, reason=outcome.reason)

    def _carry_out(self, asked: EnvelopeContent) -> str:
        if asked.team != self._team():
            raise ActionError(_OTHER_WORKSPACE)
        self._people.check(asked.user)
        if asked.request is None:
            return asked.problem
        text = self._perform(asked.request)
        self._done[asked.request.key()] = None
        if len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        return text

    def _count(self, action: str, result: str) -> None:
        self._metrics.actions.labels(action, result).inc()
