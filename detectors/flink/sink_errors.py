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


class ErrorCounter(msgspec.Struct, array_like=True):
    """A subtask's counter of errors: its value, and the rises that follow each other within minutes.

    `time`, `since` and `last` are event times of the newest sample and of the first and last rise; `rises` is their
    number and `errors` their sum. `sent` are the records sent so far, `sent_before` those before the first rise, and
    `sent_last` those at the newest sample. `peak` is the value before it fell, until it rises again, and `held` counts
    the samples since the records sent last rose.
    """

    value: int
    time: int
    sent: int = 0
    sent_before: int = 0
    since: int = 0
    last: int = 0
    rises: int = 0
    errors: int = 0
    sent_last: int = 0
    peak: int = 0
    held: int = 0

    def take(self, value: int, time: int, min_share: float) -> bool:
        """Take in a sample. Returns whether the counter has risen by that share of what was sent since the last one.

        A restart sets it back; a value that fell for one sample was wrong. Where the records sent are known but have
        not risen yet, the next samples are waited for: a scrape may arrive in parts and in any order.
        """
        if time <= self.time:
            return False
        self.time = time
        sent = self.sent - self.sent_last
        if value < self.value or sent < 0:
            self.peak = max(self.peak, self.value)
            self.value, self.sent_last = value, self.sent
            return False
        if self.sent and not sent and self.held < _HELD:
            self.held += 1
            return False
        rise = value - (self.peak if value >= self.peak > self.value else self.value)
        self.value, self.sent_last, self.peak, self.held = value, self.sent, 0, 0
        if rise <= 0 or (sent > 0 and rise < min_share * sent):
            return False
        if time - self.last > _STREAK_MS:
            self.since, self.rises, self.errors, self.sent_before = time, 0, 0, self.sent
        self.last, self.rises, self.errors = time, self.rises + 1, self.errors + rise
        return True

    def share(self) -> float:
        """The share of errors in the records sent during the rises, 1 if it is not known."""
        sent = self.sent - self.sent_before if self.sent >= self.sent_before else self.sent
        return min(self.errors / sent, 1.0) if sent > 0 else 1.0


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
        sums = [
            sum(c.errors for key, c in self.counters.items() if key.startswith(f"{job}|{name}|")) for name in ERRORS
        ]
        return max(sums)
