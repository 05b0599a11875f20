"""The history of a series in bounded state: its last 64 points, and medians of 4, 16, 64 … points, 64 of each.

A cluster has many jobs, and a job has hundreds of points, so they are kept in columns of bytes, 12 bytes for each
point. Times are exact to 10 ms, values to seven digits, size and load to a thousandth.
"""

import math
import struct
from bisect import bisect_left
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from detectors.values.durations import LONG_AGO

WINDOW = 64
_SCALES = 8
_MERGED = 4
_UNIT_MS = 10
_LONGEST = (1 << 32) - 1
_LEAST, _MOST = 1e-3, 3e38
_DIGITS = 700
_LARGEST = (1 << 16) - 1


class Point(NamedTuple):
    """One value, with the size and the load measured with it (-1: unknown; values below 1 count as unknown)."""

    time: int
    value: float
    size: float = -1.0
    load: float = -1.0


class TimeScale(msgspec.Struct, array_like=True):
    """Columns of up to 64 points, of which `waiting` are not yet in the next scale.

    Times are multiples of 10 ms since the history began, sizes and loads are stored as logarithms.
    """

    times: bytearray = msgspec.field(default_factory=bytearray)
    numbers: bytearray = msgspec.field(default_factory=bytearray)
    sizes: bytearray = msgspec.field(default_factory=bytearray)
    loads: bytearray = msgspec.field(default_factory=bytearray)
    waiting: int = 0

    def add(self, at: int, point: Point) -> None:
        """Add the next point."""
        self.times += struct.pack("=I", at)
        self.numbers += struct.pack("=f", min(max(point.value, _LEAST), _MOST))
        self.sizes += struct.pack("=H", _coded(point.size))
        self.loads += struct.pack("=H", _coded(point.load))
        for column, width in ((self.times, 4), (self.numbers, 4), (self.sizes, 2), (self.loads, 2)):
            del column[: -WINDOW * width]
        self.waiting += 1

    def values(self) -> list[float]:
        return [*memoryview(self.numbers).cast("f")]

    def __len__(self) -> int:
        return len(self.times) // 4


class MultiscaleSeries(msgspec.Struct, array_like=True):
    """A series with `scales` from fine to coarse. Times count from `begun` (epoch ms); `last` is the newest time."""

    begun: int = 0
    last: int = LONG_AGO
    scales: list[TimeScale] = []

    def add(self, point: Point) -> None:
        """Add the next point. Times must not run backwards."""
        if not self.scales or point.time - self.begun > _LONGEST * _UNIT_MS:
            self.scales, self.begun = [], point.time
        self.last = point.time
        for n in range(_SCALES):
            if n == len(self.scales):
                self.scales.append(TimeScale())
            scale = self.scales[n]
            scale.add((point.time - self.begun) // _UNIT_MS, point)
            if scale.waiting < _MERGED:
                return
            scale.waiting = 0
            time, *rest = (median(column) for column in zip(*self.points(n, _MERGED), strict=True))
            point = Point(round(time), *rest)

    def points(self, scale: int, count: int = WINDOW) -> list[Point]:
        if scale >= len(self.scales):
            return []
        own = self.scales[scale]
        times, values = memoryview(own.times).cast("I"), memoryview(own.numbers).cast("f")
        sizes, loads = memoryview(own.sizes).cast("H"), memoryview(own.loads).cast("H")
        rows = zip(times[-count:], values[-count:], sizes[-count:], loads[-count:], strict=True)
        return [Point(self.begun + at * _UNIT_MS, v, _decoded(size), _decoded(load)) for at, v, size, load in rows]

    def time(self, scale: int, index: int) -> int:
        """Time of a point of a scale by its index; -1 is the newest."""
        times: Sequence[int] = memoryview(self.scales[scale].times).cast("I")
        return self.begun + times[index] * _UNIT_MS

    def before(self, scale: int, time: int) -> list[float]:
        times: Sequence[int] = memoryview(self.scales[scale].times).cast("I")
        return self.scales[scale].values()[: bisect_left(times, -((self.begun - time) // _UNIT_MS))]

    def clear(self) -> None:
        self.scales, self.last = [], LONG_AGO


def _coded(value: float) -> int:
    """Encode the logarithm as an integer; 0 means unknown."""
    return min(round(_DIGITS * math.log(value)) + 1, _LARGEST) if value >= 1 else 0


def _decoded(code: int) -> float:
    return math.exp((code - 1) / _DIGITS) if code else -1.0
