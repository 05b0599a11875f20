"""How much evidence closes a finding: one rule for all sources, however often they are scraped.

A finding that several samples have opened does not close at the first one that looks better: a source that is scraped
once a minute would open and close it all the time. It closes after a time, and after no less than three samples of its
own source in a row. With scrapes a minute apart these take three minutes, with scrapes five seconds apart the time
decides.
"""

import msgspec

ENOUGH_SAMPLES = 3
"""Samples of one series that prove something: that it pauses, that it moves again, that it is calm."""


def still_measured(last: int, every: int, time: int, least: int) -> bool:
    """Whether a series is still measured whose samples come at least once in `every` ms, or in `least` ms."""
    return time - last <= max(least, ENOUGH_SAMPLES * every)


class CalmSamples(msgspec.Struct, array_like=True):
    """The calm samples of one series in a row: event times of the first and the last one, and their number."""

    since: int = 0
    last: int = 0
    count: int = 0

    def take(self, calm: bool, time: int) -> None:
        """Take in a sample. One that is not calm starts the count again; a late one does not count."""
        if not calm:
            self.count = 0
        elif not self.count or time > self.last:
            self.since = self.since if self.count else time
            self.last, self.count = time, self.count + 1

    def enough(self, least: int = 0) -> bool:
        """Whether there are three samples over at least `least` ms."""
        return self.count >= ENOUGH_SAMPLES and self.last - self.since >= least
