"""Inputs that are read to their end and then as they grow, with the machine's time as the stream's clock.

What the inputs have at the beginning is replayed by its own times. After that every record arrives at the present, and
the clock advances without records too, as with the job's heartbeat.
"""

import time
from collections.abc import Iterator

import msgspec

from detectors.events.layouts.wrappers import zone_of
from streaming.recordings.followed_log import FileTail, FollowedLog
from streaming.recordings.followed_samples import FollowedSamples
from streaming.recordings.input_file import Arrival, InputFile
from streaming.recordings.inputs import InputFiles
from streaming.recordings.log_file import is_packed
from streaming.recordings.standard_input import StandardInput
from streaming.threads import Stop

_POLL_S = 0.5
_ASK_EVERY = 1_000


def now_ms() -> int:
    """Epoch ms."""
    return round(time.time() * 1000)


class FollowedInputs:
    """The records of inputs until `stop`, or until `stdin` ends and is all there is."""

    def __init__(
        self, inputs: InputFiles, stop: Stop, *, stdin: StandardInput | None, samples: FollowedSamples | None
    ) -> None:
        self._inputs = inputs
        self._stop = stop
        self._stdin = stdin
        self._samples = samples
        if inputs.zone is None:
            inputs.zone = self._zone()

    def arrivals(self) -> Iterator[Arrival]:
        """The records in order of the stream's clock, and the clock at each look for new ones."""
        for count, arrival in enumerate(self._inputs.arrivals()):
            if count % _ASK_EVERY == 0 and self._stop.wait(0):
                return
            yield _not_ahead(arrival, now_ms())
        yield from self._growing()

    def _growing(self) -> Iterator[Arrival]:
        tails = {number: FileTail(one.path, one.log.tail.begin) for number, one in self._files() if one.log}
        logs = {number: FollowedLog(one.log, tails[number].read) for number, one in self._files() if one.log}
        if self._stdin is not None:
            number, log = next((n, one.log) for n, one in enumerate(self._inputs.files) if self._is_stdin(one))
            if log is not None:
                logs[number] = FollowedLog(log, self._stdin.read)
        if self._samples is not None:
            self._samples.start()
        try:
            while True:
                now = now_ms()
                for number, one in logs.items():
                    yield from (Arrival(now, number, record) for record in one.records(now))
                if self._samples is not None:
                    last = len(self._inputs.files) - 1
                    yield from (Arrival(now, last, record) for record in self._samples.records(now))
                yield Arrival(now, 0, None)
                if self._stop.wait(_POLL_S) or (self._ended() and not tails):
                    return
        finally:
            for tail in tails.values():
                tail.close()
            if self._samples is not None:
                self._samples.stop()

    def _zone(self) -> int | None:
        """The zone of local times: the last line of a file was written when the file was last changed."""
        for _, one in self._files():
            if one.log is not None and one.log.local and not one.log.sections[-1].utc:
                return zone_of(one.log.sections[-1].last, int(one.path.stat().st_mtime * 1000))
        return None

    def _files(self) -> Iterator[tuple[int, InputFile]]:
        """The log files that may grow, with their numbers."""
        for number, one in enumerate(self._inputs.files):
            readable = one.log is not None and one.log.problem in ("", "empty")
            if readable and not self._is_stdin(one) and not is_packed(one.path):
                yield number, one

    def _is_stdin(self, one: InputFile) -> bool:
        return self._stdin is not None and one.path == self._stdin.path

    def _ended(self) -> bool:
        return self._stdin is not None and self._stdin.ended and self._samples is None


def _not_ahead(arrival: Arrival, now: int) -> Arrival:
    """No time is later than the present: the zone of a file may be unknown, or the clock of its host wrong."""
    if arrival.clock <= now:
        return arrival
    record = arrival.record and msgspec.structs.replace(arrival.record, timestamp=min(arrival.record.timestamp, now))
    return arrival._replace(clock=now, record=record)
