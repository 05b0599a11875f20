"""A receiver of notifications: one sink's own way out of Kafka, so that a failure or a limit delays no other receiver.

Each has its own consumer group, notification log, outbox and thread. Each Slack channel is a receiver.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from detectors.incident import Transition
from sinks.contract.overview_schedule import OverviewSchedule
from sinks.contract.sink import Sink


class Receiver(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is its label in metrics, part of the log's keys and of the consumer group's name. `channel` is the ID of
    the channel in which messages are looked up, or empty. If `digest_above` new messages wait, a digest reports more.
    `remind_after`: a critical incident that no one has acknowledged for so long (ms; 0: never) gets a reminder.
    `overviews` are the schedules of what it is sent. `routes_version` changes with each change of what `is_target` and
    `quiet_until` answer.
    """

    name: str
    sink: Sink
    channel: str = ""
    digest_above: int = 30
    remind_after: int = 0
    overviews: tuple[OverviewSchedule, ...] = ()
    is_target: Callable[[Transition], bool] = lambda _: True
    quiet_until: Callable[[Transition, datetime], datetime | None] = lambda *_: None
    routes_version: Callable[[], int] = lambda: 0

    def quiet_s(self, transition: Transition, now_s: float) -> float:
        """Seconds until a new incident may be sent, 0 for now. `now_s` is wall-clock time, epoch seconds."""
        until = self.quiet_until(transition, datetime.fromtimestamp(now_s, tz=UTC))
        return 0.0 if until is None else max(0.0, until.timestamp() - now_s)
