"""Counters of records that sinks could not write, and whether they rise for longer than a burst.

Two metrics count the same errors (`numRecordsSendErrors` replaces `numRecordsOutErrors`), so each is judged by itself.
A sink that tries a few records again all the time has single errors in every sample. These do not count: otherwise they
would join one burst to a long rise.
Healthy sinks have counters of 0, which are not kept.
"""

import msgspec

from detectors.events.event import Sample
from detectors.values.bounded import put_bounded, to_int

ERRORS = ("records_out_errors", "records_send_errors")
SENT = "records_sent"
_MAX_COUNTERS = 1_000
_STREAK_MS = 300_000
_HELD = 2


class Rises(msgspec.Struct, array_like=True):
    """Rises of a counter that follow each other within minutes.

    `since` and `last` are event times of the first and the last one, `count` is their number and `errors` their sum.
    `sent` are the records that had been sent before the first one.
    """

    since: int = 0
    last: int = 0
    count: int = 0
    errors: int = 0
    sent: int = 0

    def share(self, sent: int) -> float:
        """The share of errors in the records sent meanwhile, of which there are `sent` so far; 1 if it is not known."""
        meanwhile = sent - self.sent if sent >= self.sent else sent
        return min(self.errors / meanwhile, 1.0) if meanwhile > 0 else 1.0


class ErrorCounter(msgspec.Struct, array_like=True):
    """A subtask's counter of errors at its newest sample: its value, event time, and its last rises.

    `sent` are the records sent so far, `sent_before` those at that sample. `peak` is the value before it fell, until it
    rises again, and `held` counts the samples since the records sent last rose.
    """

    value: int
    time: int
    sent: int = 0
    sent_before: int = 0
    peak: int = 0
    held: int = 0
    rises: Rises = msgspec.field(default_factory=Rises)

    def take(self, value: int, time: int, min_share: float) -> bool:
        """Take in a sample. Returns whether the counter has risen by that share of what was sent since the last one.

        A restart sets it back; a value that fell for one sample was wrong. Where the records sent are known but have
        not risen yet, the next samples are waited for: a scrape may arrive in parts and in any order.
        """
        if time <= self.time:
            return False
        self.time = time
        sent = self.sent - self.sent_before
        if value < self.value or sent < 0:
            self.peak = max(self.peak, self.value)
            self.value, self.sent_before = value, self.sent
            return False
        if self.sent and not sent and self.held < _HELD:
            self.held += 1
            return False
        rise = value - (self.peak if value >= self.peak > self.value else self.value)
        self.value, self.sent_before, self.peak, self.held = value, self.sent, 0, 0
        if rise <= 0 or (sent > 0 and rise < min_share * sent):
            return False
        if time - self.rises.last > _STREAK_MS:
            self.rises = Rises(since=time, sent=self.sent)
        self.rises.last = time
        self.rises.count += 1
        self.rises.errors += rise
        return True

    def lasts(self, min_rises: int, min_duration: int, min_errors: int, min_share: float) -> bool:
        """Whether it has risen for longer, and by more, than that of a healthy sink."""
        rises = self.rises
        long = rises.count >= min_rises and rises.last - rises.since >= min_duration
        return long and rises.errors >= min_errors and rises.share(self.sent) >= min_share


class SinkErrors(msgspec.Struct, array_like=True):
    """The counters of one cluster that are not 0, by job, metric, TaskManager, operator and subtask."""

    counters: dict[str, ErrorCounter] = {}

    def take(self, sample: Sample, time: int, min_share: float) -> ErrorCounter | None:
        """Take in a sample. Returns the counter if it has risen by that share of the records sent."""
        labels = sample.labels
        subtask = (
            labels.get(name, "") for name in ("tm_id", "task_id", "operator_id", "operator_name", "subtask_index")
        )
        job, where, value = labels.get("job_id", ""), "|".join(subtask), to_int(sample.value)
        if sample.name == SENT:
            for name in ERRORS:
                if (counter := self.counters.get(f"{job}|{name}|{where}")) is not None:
                    counter.sent = value
            return None
        key = f"{job}|{sample.name}|{where}"
        counter = self.counters.get(key)
        if counter is not None:
            return counter if counter.take(value, time, min_share) else None
        if value > 0 and job:
            put_bounded(self.counters, key, ErrorCounter(value, time), _MAX_COUNTERS)
        return None

    def total(self, job: str) -> int:
        """The errors of a job in the last rises of all its subtasks."""
        own = [(key.split("|")[1], c.rises.errors) for key, c in self.counters.items() if key.startswith(f"{job}|")]
        return max(sum(errors for name, errors in own if name == metric) for metric in ERRORS)
