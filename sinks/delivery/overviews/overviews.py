"""Queues each overview of a receiver once its time has come.

The deliverer that owns the first partition of the incidents topic does this, and the partition's notification log has
an entry for each overview. So a restart, a rebalance or a kill repeats none, as with incidents.
"""

from concurrent.futures import Future

import structlog

from sinks.contract.overview import PREFIX, Overview, ScheduledOverview
from sinks.contract.overview_schedule import OverviewSchedule
from sinks.contract.placeholder import placeholder
from sinks.contract.receiver import Receiver
from sinks.delivery.attempt import NO_OFFSET
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.delivery.outbox import Clocks, Outbox
from sinks.delivery.overviews.reading import ReadOverview

log = structlog.get_logger()

LATE_MS = 7_200_000
"""An overview that could not be sent for so long is not sent any more; the next one covers its time."""

SETTLE_MS = 10_000
"""An overview is read so long after its time, because the last changes before it arrive a little later."""

_PARTITION = 0
_LONGEST_MS = 14 * 86_400_000
_CHECK_EVERY_S = 1.0
_READ_AGAIN_S = 15.0


class Overviews:
    """The schedules of one receiver. Used from one thread."""

    def __init__(
        self, receiver: Receiver, notification_log: NotificationLog, outbox: Outbox, clocks: Clocks, read: ReadOverview
    ) -> None:
        self._receiver, self._log, self._outbox, self._clocks = receiver, notification_log, outbox, clocks
        self._read = read
        self._reading: dict[str, Future[Overview]] = {}
        # The newest overview of each schedule that was queued or given up.
        self._newest: dict[str, str] = {}
        self._check_at = 0.0

    def queue_due(self) -> None:
        """Look at the schedules, at most once a second. It waits for nothing but the notification log."""
        now = self._clocks.monotonic()
        if not self._receiver.overviews or now < self._check_at:
            return
        self._check_at = now + _CHECK_EVERY_S
        if _PARTITION not in self._log.partitions():
            self._reading.clear()
            return
        for schedule in self._receiver.overviews:
            self._look_at(schedule)

    def _look_at(self, schedule: OverviewSchedule) -> None:
        now_ms = self._clocks.now_ms()
        due = schedule.newest(now_ms - SETTLE_MS)
        name = f"{PREFIX}{schedule.name}/{due}"
        entry = self._log.get(_PARTITION, name)
        if entry is not None and entry.state == "sent":
            return
        known = self._known(schedule)
        last = max((time for time, entry in known.items() if entry.state == "sent"), default=None)
        if last is None:
            # A new schedule begins with its next time.
            self._mark_sent(name)
        elif last < due:
            unsent = {entry.incident for entry in known.values() if entry.state != "sent"}
            for older in (unsent | {self._newest.get(schedule.name, name)}) - {name}:
                self._give_up(older)
            self._newest[schedule.name] = name
            if now_ms - due > LATE_MS:
                self._give_up(name)
            elif name not in self._outbox:
                self._prepare(schedule, name, max(last, due - _LONGEST_MS), due)

    def _prepare(self, schedule: OverviewSchedule, name: str, since: int, due: int) -> None:
        """Begin to read the overview, and queue it once it was read."""
        reading = self._reading.get(name)
        if reading is None:
            self._reading[name] = self._read(since, due)
        elif reading.done():
            del self._reading[name]
            if error := reading.exception():
                self._check_at = self._clocks.monotonic() + _READ_AGAIN_S
                log.warning("overview could not be read", schedule=schedule.name, error=type(error).__name__)
                return
            found = reading.result()
            if found.is_empty and not schedule.send_empty:
                self._mark_sent(name)
            else:
                self._queue(name, ScheduledOverview(schedule.name, found, since < schedule.newest(due - 1)))

    def _queue(self, name: str, content: ScheduledOverview) -> None:
        now_ms = self._clocks.now_ms()
        until = content.found.until
        transition = placeholder(name, 1, until, "overview", until)
        queued = self._outbox.put(transition, _PARTITION, NO_OFFSET, self._clocks.monotonic(), at=now_ms)
        queued.summary = lambda: content

    def _give_up(self, name: str) -> None:
        if name in self._outbox:
            log.warning("overview not sent in time, the next one covers its time", overview=name)
        self._reading.pop(name, None)
        self._outbox.done(name)
        entry = self._log.get(_PARTITION, name)
        if entry is not None and entry.state != "sent":
            # It would count as a message that may have arrived.
            self._log.try_set(_PARTITION, name, None)

    def _known(self, schedule: OverviewSchedule) -> dict[int, Entry]:
        """What the log has of a schedule, by the time of the overview (epoch ms)."""
        prefix = f"{PREFIX}{schedule.name}/"
        found = (
            (entry.incident.removeprefix(prefix), entry)
            for partition, entry in self._log.entries()
            if partition == _PARTITION and entry.incident.startswith(prefix)
        )
        return {int(time): entry for time, entry in found if time.isdecimal()}

    def _mark_sent(self, name: str) -> None:
        """If the log cannot be written, it is tried again."""
        entry = Entry(incident=name, seq=1, state="sent", at=self._clocks.now_ms())
        if not self._log.try_set(_PARTITION, name, entry):
            self._log.remember(_PARTITION, name, None)
