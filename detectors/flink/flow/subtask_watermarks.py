"""The event-time watermarks of one subtask: the one that it gets, and the one that a source emits."""

import msgspec

from detectors.flink.calm import ENOUGH_SAMPLES


class InputWatermark(msgspec.Struct, array_like=True):
    """The input watermark of one subtask, and the records that it has received since that advanced.

    `usual` is the average number of records between two advances. `since` is the event time of the last advance, `last`
    that of the last sample. `waited` is the time in which records arrived since then, in ms, `rises` the number of
    samples that show it. `steps` counts the advances since the attempt began, or since the watermark was reported.
    `emitted` is the event time of the last sample if that shows that the subtask emits records without reading any,
    such as a window that fires.
    """

    value: int
    since: int
    last: int
    received: int = -1
    records: int = 0
    usual: int = 0
    counted: int = 0
    waited: int = 0
    rises: int = 0
    steps: int = 0
    read: int = 0
    sent: int = -1
    emitted: int = 0
    stalled: bool = False

    @property
    def shown_to_advance(self) -> bool:
        """Whether enough samples show different watermarks: each advance, and the one before the first of them."""
        return self.steps + 1 >= ENOUGH_SAMPLES

    @property
    def shown_to_pause(self) -> bool:
        """Whether enough samples show the same watermark: that of the last advance, and each that followed records."""
        return self.rises + 1 >= ENOUGH_SAMPLES

    def reset(self) -> None:
        """The watermark has advanced, or another attempt has begun."""
        self.records = self.counted = self.waited = self.rises = 0


class OutputWatermark(msgspec.Struct, array_like=True):
    """The watermark that a source subtask emits: event times of its last advance and sample, and how long it is idle.

    `idle` is in ms, -1 if unknown.
    """

    value: int
    since: int
    last: int
    tm: str
    host: str
    idle: int = -1
