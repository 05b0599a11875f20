"""How checkpoint durations have grown, by a trend or in a step: the limits against which that matters, and the text."""

from statistics import median
from typing import NamedTuple, Protocol

from detectors.flink.checkpointing.checkpoint_durations import chart, chart_of_shift
from detectors.incident import Forecast, Series
from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.rise import Rise, settled
from detectors.numerics.shift import Shift, shift
from detectors.values.durations import humanize, roughly
from detectors.values.sizes import si

TIMEOUT, INTERVAL = "the checkpoint timeout", "the checkpoint interval"
STEP = -1
"""The scale of a growth in a step."""
_HOUR_MS = 3_600_000
_FIRST_SYMPTOM = 0.25
_LATEST = 6
_WITH_STATE = 1.2
_OF_INTERVAL, _OF_TIMEOUT = 0.9, 0.5
_MATTERS_STILL = 0.75
_SAME = 1.25
_LOADED = 1.2

Limits = dict[str, int]
"""The limits for durations in ms by name, the worst first."""
Expired = list[tuple[int, int]]


class Growth(NamedTuple):
    """Durations that have grown from `usual` to `level` (ms) since a time, on a time scale. `sure`: they were flat."""

    usual: float
    level: float
    since: int
    scale: int
    summary: str
    critical: bool
    sure: bool
    forecast: Forecast | None
    series: Series


def grown_by_trend(found: Rise, usual: float, limits: Limits, horizon: int, soon: int, expired: Expired) -> Growth:
    """Growth by a trend. It is critical if the timeout is reached within `soon` ms."""
    reached = {what: c for what, level in limits.items() if (c := found.reaches_within(level, horizon))}
    what, ahead = next(iter(reached.items()), ("", None))
    until = [f"{w} of {humanize(limits[w])} in about {roughly(c.at - found.now)}" for w, c in reached.items()]
    # A curve that no longer fits may be above every value that was seen.
    shown = min(found.level, max(point.value for point in found.points))
    per_hour = 0 if found.fit.exponential else found.fit.line.slope * _HOUR_MS
    pace = f" and grows by {humanize(per_hour)} per hour" if per_hour > 0 else ", and growth is accelerating"
    return Growth(
        usual,
        found.level,
        found.since(_FIRST_SYMPTOM),
        found.scale,
        f"checkpoint duration rose from {humanize(usual)} to {humanize(shown)}{pace}; "
        + (f"it reaches {' and '.join(reversed(until))}; " if until else "")
        + _state_size(found.points),
        ahead is not None and ahead.at - found.now < soon and what == TIMEOUT,
        found.established,
        Forecast(f"checkpoint duration reaches {what}", ahead.at, ahead.earliest, ahead.latest) if ahead else None,
        chart(found, limits.get(what), expired),
    )


def grown_in_a_step(found: Shift, usual: float, limits: Limits, expired: Expired) -> Growth:
    """Growth in a step. It is critical from half of the timeout on, if another step like this one exceeds it."""
    shares = [f"{found.after / level:.0%} of {what} of {humanize(level)}" for what, level in reversed(limits.items())]
    return Growth(
        usual,
        found.after,
        found.since,
        STEP,
        f"checkpoint duration rose from {humanize(usual)} to {humanize(found.after)} in a step and has stayed there "
        f"for {humanize(found.now - found.since)}; that is {' and '.join(shares)}; {_state_size(found.points)}",
        found.after >= _OF_TIMEOUT * limits[TIMEOUT] and found.after * found.after >= found.before * limits[TIMEOUT],
        True,
        None,
        chart_of_shift(found, min(limits.values()), expired),
    )


def _matters_from(limits: Limits) -> float:
    """The duration in ms from which a level of durations matters.

    Checkpoints that take almost as long as their interval follow each other without a pause, and those that take half
    of the timeout expire when they take twice as long.
    """
    shares = {TIMEOUT: _OF_TIMEOUT, INTERVAL: _OF_INTERVAL}
    return min(shares[what] * level for what, level in limits.items())


class StepThresholds(Protocol):
    """When durations have grown in a step; `kinds/checkpoints/checkpoint_duration_creep.py` describes the settings."""

    @property
    def growth(self) -> float: ...
    @property
    def significance(self) -> float: ...
    @property
    def min_increase(self) -> int: ...
    @property
    def min_level_duration(self) -> int: ...


def step_that_matters(history: MultiscaleSeries, limits: Limits, known: float, config: StepThresholds) -> Shift | None:
    """A step to a level that matters, well above the `known` one, and that the input does not explain."""
    level = max(_matters_from(limits), (1 + config.growth) * known)
    if _latest(history) < level:
        return None
    found = shift(history, config.growth, config.significance, config.min_level_duration, level)
    if found is None or found.after - found.before < config.min_increase:
        return None
    return None if found.after <= _OF_TIMEOUT * limits[TIMEOUT] and found.follows_load(_LOADED) else found


def _latest(history: MultiscaleSeries) -> float:
    """The median of the last durations in ms."""
    return median(history.scales[0].values()[-_LATEST:])


def why_ended(
    history: MultiscaleSeries, usual: float, peak: float, scale: int, limits: Limits, horizon: int
) -> tuple[str, float]:
    """Why growth from `usual` to `peak` has ended (empty while it continues), and the level at which it is flat, or 0.

    Durations are low again, or no longer grow. A level that matters does so although it is flat: it ends when it no
    longer matters, or has lasted for so long that it is the usual one.
    """
    latest, least = _latest(history), _matters_from(limits)
    back, step = usual + _FIRST_SYMPTOM * (peak - usual), scale == STEP
    if latest <= (max(back, _MATTERS_STILL * least) if step else back):
        return f"the last {_LATEST} checkpoints took {humanize(latest)} (median)", 0.0
    above = [level for level in limits.values() if level > latest]
    level = step or latest >= least
    for tried in range(len(history.scales)) if level else (scale,):
        value, span = settled(history, tried, above, horizon, horizon if level else 1) or (0.0, 0)
        # A coarse scale may not have the newest values yet.
        if span > 0 and latest <= _SAME * value:
            why = f"checkpoint duration has stayed at about {humanize(value)} for {humanize(span)} and no longer grows"
            return why, value
    return "", 0.0


def _state_size(points: list[Point]) -> str:
    sizes = [p.size for p in points if p.size > 0]
    third = len(sizes) // 3
    if not third:
        return "state size is unknown"
    early, late = median(sizes[:third]), median(sizes[-third:])
    if late >= _WITH_STATE * early:
        return f"state size grew too, from {si(early)} to {si(late)}"
    return f"state size stays at {si(late)}, so look at storage, alignment or backpressure"
