"""One kind of incident, replayed alone under many values of its thresholds.

Replayed alone a detector finds the same: detectors do not know of each other. One value of one threshold is tried on
all clusters and jobs at once; each of them has its own turning points, found by bisection.
"""

from collections.abc import Callable, Iterable
from functools import cache

import msgspec

from detectors import DETECTORS
from detectors.settings.live import LiveSettings
from detectors.settings.overrides import INCIDENTS, Override, resolve
from streaming.tuning.compare import Replayed
from streaming.tuning.events import DecodedRecording
from streaming.tuning.incidents import ReplayedIncident, paired
from streaming.tuning.threshold import Threshold, Written

_ROOM = 1.25
"""How far beyond the last alarm a threshold is set where no recorded incident limits it."""

_WORTH = 1.05
_PER_JOB = frozenset(d.kind for d in DETECTORS if d.per_job)

Scope = tuple[str, str]
"""Cluster, and job for kinds that are decided for a job (else empty)."""


class Suggestion(msgspec.Struct, kw_only=True):
    """One threshold for one cluster or job; values as written in the configuration, None: cannot be told.

    `silent_from` is the most sensitive value at which healthy history is silent, `found_until` the least sensitive at
    which all `incidents` are found. Margins are ratios of `suggested` to these. `alarms`: on healthy history, now.
    `chosen`: it is in the overrides.
    """

    cluster: str
    job: str
    kind: str
    setting: str
    current: Written
    incidents: int
    alarms: int
    silent_from: Written | None = None
    found_until: Written | None = None
    suggested: Written | None = None
    margin_healthy: float | None = None
    margin_incidents: float | None = None
    note: str = ""
    chosen: bool = False


def alone(kind: str, live: LiveSettings, first: Iterable[Override]) -> LiveSettings:
    """The configuration with this detector alone; overrides in `first` win."""
    written = live.detectors.model_dump(mode="json")
    blocks = {k: block if k in {kind, INCIDENTS} else {**block, "enabled": False} for k, block in written.items()}
    overrides = []
    for override in (*first, *live.overrides):
        own = {k: block for k, block in override.detectors.items() if k in {kind, INCIDENTS}}
        if own:
            overrides.append(override.model_copy(update={"detectors": own}))
    return LiveSettings.model_validate(
        {"detectors": blocks, "overrides": [o.model_dump(mode="json") for o in overrides]}
    )


def incidents_of(live: LiveSettings, kept: DecodedRecording, stream: int) -> list[ReplayedIncident]:
    """What a replay of one stream tells."""
    replayed = Replayed(live)
    for batches in kept.pieces(stream):
        replayed.take(batches)
    return replayed.incidents()


class Trial:
    """One kind, replayed alone under many values of its thresholds."""

    def __init__(
        self,
        kind: str,
        live: LiveSettings,
        kept: tuple[DecodedRecording, DecodedRecording],
        progress: Callable[[str], None],
    ) -> None:
        self._kind = kind
        self._live = live
        self._files, self._healthy = kept
        self._progress = progress
        now = alone(kind, live, ())
        progress(kind)
        self._recorded = {s: incidents_of(now, self._files, s) for s in range(len(self._files))}
        self._alarms = [t for s in range(len(self._healthy)) for t in incidents_of(now, self._healthy, s)]
        # Every value is asked for by several scopes.
        self._tried = cache(self._try)

    def scopes(self) -> list[Scope]:
        """Where it has found something or raised an alarm."""
        told = [t for own in self._recorded.values() for t in own] + self._alarms
        return sorted({self._scope(t) for t in told})

    def row(self, threshold: Threshold, scope: Scope) -> Suggestion:
        """The turning points of a threshold for a scope, and what lies between them."""
        current = threshold.number(self._current(threshold, scope))
        incidents = sum(self._scope(t) == scope for own in self._recorded.values() for t in own)
        alarms = sum(self._scope(t) == scope for t in self._alarms)

        def silent(value: float) -> bool:
            return scope not in self._tried(threshold, value)[0]

        def found(value: float) -> bool:
            return scope not in self._tried(threshold, value)[1]

        low = _silent_from(threshold, current, silent)
        high = _turn(threshold, current, found, calmer=True) if incidents else None
        row = Suggestion(
            cluster=scope[0],
            job=scope[1],
            kind=self._kind,
            setting=threshold.setting,
            current=threshold.written(current),
            incidents=incidents,
            alarms=alarms,
            silent_from=None if low is None else threshold.written(low),
            found_until=None if high is None else threshold.written(high),
        )
        suggested = _between(threshold, current, low, high, silent=not alarms)
        if suggested is None or not silent(suggested) or not found(suggested):
            row.note = "no value does both" if low is not None and high is not None else "not silent at any value"
            return row
        row.suggested = threshold.written(suggested)
        row.margin_healthy = None if low is None else threshold.margin(low, suggested)
        row.margin_incidents = None if high is None else threshold.margin(suggested, high)
        return row

    def _scope(self, told: ReplayedIncident) -> Scope:
        return told.cluster, told.job_name if self._kind in _PER_JOB else ""

    def _current(self, threshold: Threshold, scope: Scope) -> Written:
        overrides = self._live.overrides
        fitting = [i for i, o in enumerate(overrides) if o.fits_cluster(scope[0]) and o.fits_job(scope[1])]
        written = self._live.detectors.model_dump(mode="json")
        value: Written = resolve(written, overrides, fitting)[self._kind][threshold.setting].value
        return value

    def _try(self, threshold: Threshold, value: float) -> tuple[set[Scope], set[Scope]]:
        """The scopes with an alarm on healthy history, and those that lose an incident."""
        self._progress(f"{self._kind}.{threshold.setting} = {threshold.written(value)}")
        block = {self._kind: {threshold.setting: threshold.written(value)}}
        live = alone(self._kind, self._live, [Override.model_validate({"detectors": block})])
        noisy = {self._scope(t) for s in range(len(self._healthy)) for t in incidents_of(live, self._healthy, s)}
        lost: set[Scope] = set()
        for stream, old in self._recorded.items():
            if old:
                kept = {id(a) for a, _ in paired(old, incidents_of(live, self._files, stream))}
                lost |= {self._scope(t) for t in old if id(t) not in kept}
        return noisy, lost


def _silent_from(threshold: Threshold, current: float, silent: Callable[[float], bool]) -> float | None:
    """The most sensitive value that is silent; None when none is, or when nothing limits it."""
    if silent(current):
        return _turn(threshold, current, silent, calmer=False)
    noisy = current
    for value in threshold.ladder(current, calmer=True):
        if silent(value):
            return threshold.turn(value, noisy, silent)
        noisy = value
    return None


def _turn(threshold: Threshold, start: float, holds: Callable[[float], bool], *, calmer: bool) -> float | None:
    """The last value from `start` on for which it holds; None when it does up to the end."""
    good = start
    for value in threshold.ladder(start, calmer=calmer):
        if not holds(value):
            return threshold.turn(good, value, holds)
        good = value
    return None


def _between(
    threshold: Threshold, current: float, low: float | None, high: float | None, *, silent: bool
) -> float | None:
    """Half-way, as ratios, between both limits; with one limit the present value if it does, else a little beyond."""
    up = threshold.calmer_when_higher
    if low is not None and high is not None:
        if low != high and (low > high) == up:
            return None
        middle = threshold.grid((low * high) ** 0.5)
        middle = min(max(middle, min(low, high)), max(low, high))
        return current if max(middle, current) / min(middle, current) < _WORTH and silent else middle
    if silent:
        return current
    return None if low is None else threshold.grid(low * _ROOM if up else low / _ROOM)
