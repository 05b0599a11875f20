"""The numbers of a series for a chart: which can be drawn, and in which unit."""

from collections.abc import Iterable
from typing import NamedTuple

Points = list[tuple[int, float]]
"""Times (epoch ms) and values."""

FAR_UP, FAR_ON = 8.0, 4.0
"""A limit or a forecast beyond this multiple of the values or of the time span would flatten the curve."""

_POINTS = 64
# Times that can be drawn: from 1970 to the year 9000.
_TIMES = range(221_845_392_000_000)
_MUCH = 1e300
# Of each unit in the readings: the units that people use, their size, and the value from which each is used. 1 kB is
# 1,024 bytes, as in Flink's web UI.
_UNITS: dict[str, list[tuple[str, float, float]]] = {
    "bytes": [("bytes", 1, 0), *((name, 1024**n, 1024**n) for n, name in enumerate(("kB", "MB", "GB", "TB"), 1))],
    "s": [("ms", 0.001, 0), ("s", 1, 1), ("min", 60, 180), ("h", 3600, 10_800), ("days", 86_400, 259_200)],
}
_WORDS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours"}


class UnitScale(NamedTuple):
    """Values divided by `factor` are in `unit`; an empty one is a plain number."""

    factor: float
    unit: str

    def format(self, value: float) -> str:
        """A value with its unit, for instance "30 s"."""
        return f"{value / self.factor:,.4g} {self.unit}".rstrip()

    @property
    def full_name(self) -> str:
        return _WORDS.get(self.unit, self.unit)


def scale_for(unit: str, values: Iterable[float]) -> UnitScale:
    """The unit in which the greatest of `values` is a readable number.

    >>> scale_for("bytes", [3e9]), scale_for("s", [240.0]), scale_for("MB", [12.0])
    (UnitScale(factor=1073741824.0, unit='GB'), UnitScale(factor=60.0, unit='min'), UnitScale(factor=1.0, unit='MB'))
    """
    greatest = max(map(abs, values), default=0.0)
    fitting = [UnitScale(float(size), name) for name, size, least in _UNITS.get(unit, ()) if greatest >= least]
    return fitting[-1] if fitting else UnitScale(1.0, unit)


def drawable(points: Points) -> Points:
    """The newest points that can be drawn, in order of time."""
    return sorted(point for point in points if drawable_time(point[0]) and drawable_value(point[1]))[-_POINTS:]


def drawable_time(time: int) -> bool:
    return time in _TIMES


def drawable_value(value: float) -> bool:
    return abs(value) < _MUCH
