"""A lane: one sink's own way out of Kafka, so that what fails or is limited there holds up nothing else.

Each has a consumer group, a part of the ledger, an outbox and a thread of its own; a Slack channel is a lane.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from detectors.incident import Transition
from sinks.contract.sink import Sink


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is its label in metrics, its part of the ledger's keys and of the consumer group's name.

    `channel` is where messages are looked up, a channel ID or empty. `digest_above`: so many new messages may wait
    before the next is told in a digest.
    """

    name: str
    sink: Sink
    channel: str = ""
    digest_above: int = 30
    is_target: Callable[[Transition], bool] = lambda _: True
    quiet_until: Callable[[Transition, datetime], datetime | None] = lambda *_: None

    def quiet_s(self, transition: Transition, now_s: float) -> float:
        """Seconds until a new incident may be told here, 0 for now. `now_s` is wall-clock time, epoch seconds."""
        until = self.quiet_until(transition, datetime.fromtimestamp(now_s, tz=UTC))
        return 0.0 if until is None else max(0.0, until.timestamp() - now_s)
