"""Chooses a readable unit for the axis of a chart: seconds, minutes or hours, bytes or gigabytes."""

from collections.abc import Iterable
from typing import NamedTuple

# 1 kB is 1,024 bytes, as in Flink's web UI.
_BYTES = (("bytes", 1.0), ("kB", 1024.0), ("MB", 1024.0**2), ("GB", 1024.0**3), ("TB", 1024.0**4))
_SECONDS = (("ms", 0.001), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("days", 86_400.0))
_WORDS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours"}
# A unit is used from this many of it.
_FEW = {"ms": 1.0, "s": 1.0, "min": 3.0, "h": 3.0, "days": 3.0}


class UnitScale(NamedTuple):
    """Values divided by `factor` are in `unit`; an empty one is a plain number."""

    factor: float
    unit: str

    def format(self, value: float) -> str:
        """A value with its unit, for instance "30 s"."""
        return f"{value / self.factor:,.4g} {self.unit}".rstrip()

    @property
    def full_name(self) -> str:
        """The unit's full name."""
        return _WORDS.get(self.unit, self.unit)


def scale_for(unit: str, values: Iterable[float]) -> UnitScale:
    """The unit in which the greatest of `values` is a readable number.

    >>> scale_for("bytes", [3e9]), scale_for("s", [240.0]), scale_for("MB", [12.0])
    (UnitScale(factor=1073741824.0, unit='GB'), UnitScale(factor=60.0, unit='min'), UnitScale(factor=1.0, unit='MB'))
    """
    greatest = max(map(abs, values), default=0.0)
    if unit == "bytes":
        steps = [(name, size) for name, size in _BYTES if greatest >= size] or [_BYTES[0]]
    elif unit == "s":
        steps = [(name, size) for name, size in _SECONDS if greatest >= size * _FEW[name]] or [_SECONDS[0]]
    else:
        return UnitScale(1.0, unit)
    name, size = steps[-1]
    return UnitScale(size, name)
