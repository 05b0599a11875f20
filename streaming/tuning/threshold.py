"""A threshold that can be tuned: its present value, its grid of values, and the search for the value where it turns.

The fields of a detector's Config that can be tuned say which way they are less sensitive (`LESS_SENSITIVE`).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pydantic import ValidationError

from detectors import DETECTORS
from detectors.detector import LESS_SENSITIVE
from detectors.values.durations import format_duration, parse_duration

_CONFIGS: dict[str, Any] = {d.kind: d.Config for d in DETECTORS}
_FAR = 64
_NEAR = 1.04
_COARSE_MS = 10_000
_BOUNDS = ("ge", "gt", "le", "lt")

Written = str | int | float
"""A value as it stands in the configuration."""


class Threshold(NamedTuple):
    """One setting of a kind; numbers are ms for durations."""

    kind: str
    setting: str

    @property
    def calmer_when_higher(self) -> bool:
        """Which way the detector says less."""
        return bool(_schema(self.kind, self.setting)[LESS_SENSITIVE] == "higher")

    def written(self, value: float) -> Written:
        """The value as it is written in the configuration."""
        if self._is_duration:
            return format_duration(round(value))
        return round(value) if self._is_whole else value

    def number(self, written: Written) -> float:
        """The number of a value as written."""
        return float(parse_duration(written) if self._is_duration else written)

    def grid(self, value: float) -> float:
        """The nearest value a person would write: whole seconds, whole numbers, three digits."""
        if self._is_duration:
            step = 1_000 if value >= _COARSE_MS else 100
            return float(max(step, step * round(value / step)))
        return float(round(value)) if self._is_whole else float(f"{value:.3g}")

    def margin(self, sensitive: float, calm: float) -> float:
        """How many times calmer one value is than the other."""
        return round(calm / sensitive if self.calmer_when_higher else sensitive / calm, 2)

    def ladder(self, start: float, *, calmer: bool) -> Iterator[float]:
        """Values from `start` on (without it), each twice or half the one before, to the bound of the setting."""
        up = self.calmer_when_higher == calmer
        value = start
        limit = self._limit(up)
        while start / _FAR < value < start * _FAR:
            after = value * 2 if up else value / 2
            if limit is not None and (after >= limit if up else after <= limit):
                after = limit if self._allowed(limit) else (value + limit) / 2
            after = self.grid(after)
            if after == value or not self._allowed(after) or abs(after / value - 1) < _NEAR - 1:
                return
            value = after
            yield value

    def turn(self, good: float, bad: float, holds: Callable[[float], bool]) -> float:
        """The last value for which `holds`, on the way from `good`, where it does, to `bad`, where it does not."""
        while max(good, bad) / min(good, bad) > _NEAR:
            middle = self.grid((good * bad) ** 0.5)
            if middle in {good, bad}:
                break
            good, bad = (middle, bad) if holds(middle) else (good, middle)
        return good

    @property
    def _is_duration(self) -> bool:
        return isinstance(_written_default(self.kind, self.setting), str)

    @property
    def _is_whole(self) -> bool:
        return isinstance(_written_default(self.kind, self.setting), int)

    def _limit(self, up: bool) -> float | None:
        names = _BOUNDS[2:] if up else _BOUNDS[:2]
        found = [
            getattr(m, n)
            for m in _CONFIGS[self.kind].model_fields[self.setting].metadata
            for n in names
            if hasattr(m, n)
        ]
        return float(found[0]) if found else None

    def _allowed(self, value: float) -> bool:
        try:
            _CONFIGS[self.kind].model_validate({self.setting: self.written(value)})
        except ValidationError:
            return False
        return True


def thresholds(kind: str) -> list[Threshold]:
    """The settings of a kind that can be tuned."""
    return [Threshold(kind, name) for name in _CONFIGS[kind].model_fields if LESS_SENSITIVE in _schema(kind, name)]


def _schema(kind: str, setting: str) -> dict[str, Any]:
    extra = _CONFIGS[kind].model_fields[setting].json_schema_extra
    return extra if isinstance(extra, dict) else {}


def _written_default(kind: str, setting: str) -> Any:
    return _CONFIGS[kind]().model_dump(mode="json")[setting]


TUNABLE = tuple(sorted(kind for kind in _CONFIGS if thresholds(kind)))
"""The kinds with a threshold that can be tuned."""
