"""Containers of Flink from which Kubernetes withholds CPU, because they have used up their limit.

The kernel counts periods of 100 ms in which a container ran, and those in which it was throttled (cAdvisor's
`container_cpu_cfs_periods_total` and `container_cpu_cfs_throttled_periods_total`). A container may be throttled for
hours and keep up: so it is no incident, but the cause of one. Detectors of what a starved process shows ask for one
sentence about it. Reference: kernel.org, "CFS Bandwidth Control"; kubernetes-mixin, `CPUThrottlingHigh` (25 %).
"""

import msgspec

from detectors.events.event import Sample
from detectors.events.vocabulary.container_metrics import CPU_PERIODS, THROTTLED_PERIODS, container_label
from detectors.flink.calm import ENOUGH_SAMPLES, CalmSamples
from detectors.values.bounded import setdefault_bounded, to_int

THROTTLING = (CPU_PERIODS, THROTTLED_PERIODS)
"""The samples that it takes."""

_MAX_CONTAINERS = 400
_SHARE = 0.25
_LEAST_MS = 60_000
_MAX_AGE_MS = 180_000


class ThrottledContainer(msgspec.Struct, array_like=True):
    """The two counters of one container, and the pair (periods, throttled) that was judged last.

    `since` and `last` are the event times of the first and last interval in which it was throttled, `count` the number
    of these intervals, `every` the longest time between two of them.
    """

    time: int = 0
    periods: int = -1
    throttled: int = -1
    judged: tuple[int, int] = (-1, -1)
    since: int = 0
    last: int = 0
    count: int = 0
    every: int = 0
    share: float = 0.0
    calm: CalmSamples = msgspec.field(default_factory=CalmSamples)

    def take(self, sample: Sample, time: int) -> None:
        """Take in one counter. Both are judged once they have come: they may be in records of their own."""
        if time < self.time:
            return
        if time > self.time:
            self.time, self.periods, self.throttled = time, -1, -1
        known = min(self.periods, self.throttled) >= 0
        if sample.name == CPU_PERIODS and self.periods < 0:
            self.periods = to_int(sample.value)
        elif sample.name == THROTTLED_PERIODS and self.throttled < 0:
            self.throttled = to_int(sample.value)
        if not known and min(self.periods, self.throttled) >= 0:
            self._judge(time)

    def _judge(self, time: int) -> None:
        before, self.judged = self.judged, (self.periods, self.throttled)
        ran, held = self.periods - before[0], self.throttled - before[1]
        # The kubelet measures more rarely than it may be asked; counters that run backwards are those of a new process.
        if before[0] < 0 or ran <= 0 or held < 0:
            return
        if held < _SHARE * ran:
            self.calm.take(calm=True, time=time)
            self.count = 0 if self.calm.enough() else self.count
            return
        self.calm.take(calm=False, time=time)
        self.every = max(self.every, time - self.last) if self.count else 0
        self.since = self.since if self.count else time
        self.share = min(held / ran, 1.0)
        self.last, self.count = time, self.count + 1

    def confirmed(self, time: int) -> bool:
        """Whether it has lasted, and is still measured."""
        fresh = time - self.last <= max(_MAX_AGE_MS, ENOUGH_SAMPLES * self.every)
        return fresh and self.count >= ENOUGH_SAMPLES and self.last - self.since >= _LEAST_MS


class CpuThrottling(msgspec.Struct, array_like=True):
    """The containers of a cluster by the name of their pod, those of JobManagers with `OF_JOBMANAGER` before it."""

    by_pod: dict[str, ThrottledContainer] = {}

    def take(self, sample: Sample, time: int) -> None:
        """Take in a sample of one container."""
        label = container_label(sample.labels)
        if label:
            setdefault_bounded(self.by_pod, label, ThrottledContainer(), _MAX_CONTAINERS).take(sample, time)

    def confirmed(self, time: int) -> dict[str, ThrottledContainer]:
        """The containers that are throttled at this time, by pod."""
        return {pod: one for pod, one in self.by_pod.items() if one.confirmed(time)}
