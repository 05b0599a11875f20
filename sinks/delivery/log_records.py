"""Entries of the ledger for what waits: made from it, and written."""

from collections.abc import Callable

import msgspec
import structlog
from kafka.errors import KafkaError

from detectors.incident import Transition
from sinks.delivery.notification_log import Entry, Ledger, State
from sinks.delivery.outbox import Waiting

log = structlog.get_logger()


class Records:
    """Of one lane. `wall` is wall-clock time in epoch seconds."""

    def __init__(self, ledger: Ledger, wall: Callable[[], float]) -> None:
        self._ledger = ledger
        self._wall = wall

    def entry(self, waiting: Waiting, state: State, channel: str, ts: str, before: Entry | None = None) -> Entry:
        transition = waiting.transition
        folded = before.folded if before is not None else None
        if folded is not None and state == "sent":
            folded = msgspec.structs.replace(folded, alone=True, over=transition.transition == "resolved")
        return Entry(
            incident=transition.incident,
            seq=transition.seq,
            state=state,
            at=int(self._wall() * 1000),
            channel=channel,
            ts=ts,
            told=before.told if before is not None else None,
            offset=waiting.offset,
            over=transition.transition == "resolved",
            folded=folded,
        )

    def write(self, partition: int, incident: str, entry: Entry | None) -> bool:
        """Whether the brokers have it. Where a caller does not care, a restart would look the message up once more."""
        try:
            self._ledger.set(partition, incident, entry)
        except KafkaError as error:
            log.warning("delivery ledger not written", incident=incident, error=type(error).__name__)
            return False
        return True


def without_message(entry: Entry | None, transition: Transition) -> Entry | None:
    """What the ledger keeps of an incident whose message does not stand: nothing, unless a digest counts it."""
    if entry is None or entry.folded is None:
        return None
    folded = msgspec.structs.replace(entry.folded, alone=False)
    silenced = transition.silence is not None
    return msgspec.structs.replace(entry, state="folded", channel="", ts="", folded=folded, silenced=silenced)
